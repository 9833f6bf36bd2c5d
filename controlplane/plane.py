"""A control plane to work with: start one, join one that runs, or use a cluster that exists.

``obtain`` is what programs call. It starts an instance and ends it with the block, unless
``PENSTOCK_USE_EXISTING_CLUSTER`` names a context of the user's kubeconfig: then that cluster is
used as it is, and left as it is. The switch must name the context, and KUBECONFIG alone changes
nothing, so that no test ever runs against a cluster that happens to be the current one.
"""

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, NoReturn

from controlplane import binaries, instance, kubeconfig
from controlplane.binaries import Variant
from controlplane.certificates import Authority, KeyPair
from controlplane.errors import ControlPlaneError
from controlplane.node import node as node_images
from controlplane.node import packages
from controlplane.node.addresses import Addresses
from controlplane.node.components import SANDBOX
from controlplane.supervision import Supervision
from controlplane.supervisor import Event
from toolkit.artifact import scratch

VARIANT: Final = "PENSTOCK_CONTROL_PLANE"
EXISTING: Final = "PENSTOCK_USE_EXISTING_CLUSTER"

_KUBECTL_SECONDS: Final = 60
_NOTHING: Final[Mapping[str, Sequence[str]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """A running API server, what is needed to talk to it, and what it is made of."""

    name: str
    server: str
    ca: bytes
    kubeconfig: Path
    """Authenticates as an administrator."""
    directory: Path
    """Holds the kubeconfigs; for an instance also ``logs/`` and ``pki/``. Goes away with it."""
    kubectl_program: Path
    supervision: Supervision | None = field(default=None, repr=False)
    addresses: Addresses | None = None
    """Those of its real node, if it has one; pods reach this machine at ``addresses.host``."""

    def environment(self) -> dict[str, str]:
        """Return the variables that make kubectl, of the right version, talk to this cluster."""
        path = os.pathsep.join((str(self.kubectl_program.parent), os.environ.get("PATH", "")))
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def kubectl(
        self, *arguments: str, stdin: str | None = None, timeout: float = _KUBECTL_SECONDS
    ) -> str:
        """Run kubectl as administrator and return what it prints.

        Raises:
            ControlPlaneError: it failed; carries what it wrote to standard error.
        """
        command = [str(self.kubectl_program), f"--kubeconfig={self.kubeconfig}", *arguments]
        try:
            answer = subprocess.run(
                command,
                input=stdin or "",
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise ControlPlaneError(f"kubectl {arguments[0]}: no end after {timeout} s") from exc
        if answer.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer.stdout

    def token(self, namespace: str, service_account: str, *, seconds: int = 3600) -> str:
        """Request a token of a service account (authentication.k8s.io/v1 TokenRequest)."""
        return self.kubectl(
            "create", "token", service_account, f"--namespace={namespace}", f"--duration={seconds}s"
        ).strip()

    def kubeconfig_for(self, user: str, *, token: str = "", token_file: Path | None = None) -> Path:
        """Write a kubeconfig that authenticates by a bearer token, or the file that holds one.

        ``user`` only names the file.
        """
        return self._write(user, token=token, token_file=token_file, client=None)

    def kubeconfig_as(self, user: str, *, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig that authenticates as a user of these groups by certificate.

        Raises:
            ControlPlaneError: the cluster is not ours, so its authority is not either.
        """
        pki = self.directory / "pki"
        if not pki.is_dir():
            raise ControlPlaneError(f"the authority of cluster {self.name} is not ours")
        pair = KeyPair(certificate=(pki / "ca.crt").read_bytes(), key=(pki / "ca.key").read_bytes())
        client = Authority.load(pair).client(user, groups=groups)
        return self._write(user, token="", token_file=None, client=client)

    def stop_component(self, name: str) -> None:
        """End one component, such as ``kube-apiserver``; the others keep running."""
        self._supervisor().stop_component(name)

    def start_component(self, name: str) -> None:
        """Start a stopped component again, at the same address and with the same data."""
        self._supervisor().start_component(name)

    def load(self, archive: Path) -> str:
        """Give the real node the images of an archive; return what containerd tells of them.

        Raises:
            ControlPlaneError: there is no real node, or containerd refuses the archive.
        """
        state = instance.read_state(self.name)
        if state is None or state.node is None:
            raise ControlPlaneError(
                f"control plane {self.name} has no real node to hold images:"
                " start one with `python -m controlplane up --node`"
            )
        with archive.open("rb") as opened:
            return node_images.import_image(state.components[SANDBOX].pid, opened)

    def detach(self) -> None:
        """Let the instance run on after the block and the process that started it."""
        self._supervisor().detach()

    def wait(self) -> None:
        """Block as long as the control plane runs.

        Raises:
            ComponentDiedError: a component died, and the others were ended.
            ControlPlaneError: it was stopped from outside.
        """
        self._supervisor().wait_for(None)

    def _supervisor(self) -> Supervision:
        if self.supervision is None:
            raise ControlPlaneError(f"control plane {self.name} belongs to another process")
        return self.supervision

    def _write(
        self, user: str, *, token: str, token_file: Path | None, client: KeyPair | None
    ) -> Path:
        # A user may be "system:serviceaccount:…", which is not a good name for a file.
        file = "".join(letter if letter.isalnum() else "-" for letter in user)
        directory = self.directory / "users"
        directory.mkdir(mode=0o700, exist_ok=True)
        return kubeconfig.write(
            directory / f"{file}.kubeconfig",
            context=self.name,
            server=self.server,
            ca=self.ca,
            client=client,
            token=token,
            token_file=token_file,
        )


def _of_environment() -> Variant:
    named = os.environ.get(VARIANT, Variant.USUAL)
    if named in set(Variant):
        return Variant(named)
    raise ControlPlaneError(f"{VARIANT}={named}: there are {', '.join(Variant)}")


@contextmanager
def obtain(
    name: str = "default",
    *,
    alternatives: int = 0,
    variant: Variant | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Iterator[ControlPlane]:
    """Use the cluster that the environment names, else start an instance for this block.

    Raises:
        ControlPlaneError: see ``existing`` and ``start``.
    """
    context = os.environ.get(EXISTING, "")
    own = start(name, alternatives=alternatives, variant=variant, report=report)
    with existing(context) if context else own as plane:
        yield plane


@contextmanager
def start(
    name: str = "default",
    *,
    alternatives: int = 0,
    flags: Mapping[str, Sequence[str]] = _NOTHING,
    variant: Variant | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Iterator[ControlPlane]:
    """Start an instance, building its programs first if need be, and end it with the block.

    ``flags`` are further flags by component. If ``name`` is taken, the first free of that many
    ``alternatives`` (``name-2``, …) is used. ``report`` is told each step in a line. Without a
    ``variant`` it is the one that ``PENSTOCK_CONTROL_PLANE`` names, or the usual one.

    Raises:
        ControlPlaneError: the environment names a variant that there is not.
        BuildError: a program can neither be found nor built.
        NodeUnavailableError: this machine or this user cannot have a real node.
        InstanceRunningError: the name is taken.
        ComponentDiedError: a component died, now or before the block ended.
    """
    variant = variant or _of_environment()
    if variant is Variant.NODE:
        # Before minutes of building.
        packages.find()
    programs = binaries.locate(variant=variant, report=report)

    def tell(event: Event) -> None:
        report(f"{event.subject} {event.kind}".strip())

    instance.sweep()
    # The supervisor inherits the lock; after the block it alone decides when it is free.
    with instance.claim(name, alternatives=alternatives) as held:
        supervision = Supervision.start(held, programs=programs, flags=flags, variant=variant)
    try:
        supervision.wait_for("ready", report=tell)
        yield _of_instance(held.name, supervision)
    finally:
        supervision.stop()


def attach(name: str = "default") -> ControlPlane:
    """Return an instance that somebody else runs, or that was detached.

    Raises:
        ControlPlaneError: it does not run, or is not ready.
    """
    state = instance.read_state(name)
    if state is None or state.phase != "ready" or not instance.is_running(name):
        raise ControlPlaneError(
            f"no control plane named {name} is running: `python -m controlplane up` starts one"
        )
    return _of_instance(name, None)


@contextmanager
def existing(context: str) -> Iterator[ControlPlane]:
    """Use the cluster of a context of the user's kubeconfig (KUBECONFIG, else ~/.kube/config).

    Raises:
        ControlPlaneError: there is no such context.
    """
    kubectl = binaries.locate("kubectl")["kubectl"]
    query = ("--raw", "--minify", "--flatten", "--output=json", f"--context={context}")
    answer = subprocess.run(
        [kubectl, "config", "view", *query],
        capture_output=True,
        text=True,
        timeout=_KUBECTL_SECONDS,
        check=False,
    )
    if answer.returncode != 0:
        _refuse_context(context, answer.stderr)
    document = json.loads(answer.stdout)
    cluster = document["clusters"][0]["cluster"]
    with scratch.claimed() as directory:
        path = directory / instance.ADMIN
        path.touch(mode=0o600)
        path.write_text(answer.stdout)
        yield ControlPlane(
            name=context,
            server=cluster["server"],
            ca=base64.b64decode(cluster.get("certificate-authority-data", "")),
            kubeconfig=path,
            directory=Path(directory),
            kubectl_program=kubectl,
        )


def _refuse_context(context: str, reason: str) -> NoReturn:
    raise ControlPlaneError(
        f"{EXISTING} must name a context of your kubeconfig, and {context!r} is none:"
        f" {reason.strip()}"
    )


def _of_instance(name: str, supervision: Supervision | None) -> ControlPlane:
    state = instance.read_state(name)
    if state is None:
        raise ControlPlaneError(f"control plane {name} has just been stopped")
    directory = instance.directory_of(name)
    return ControlPlane(
        name=name,
        server=state.server,
        ca=(directory / "pki" / "ca.crt").read_bytes(),
        kubeconfig=directory / instance.ADMIN,
        directory=directory,
        kubectl_program=Path(state.programs["kubectl"]),
        supervision=supervision,
        addresses=state.node.places if state.node else None,
    )
