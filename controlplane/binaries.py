"""Find the programs of the control plane, or have them built.

Each program is looked for in ``$KUBEBUILDER_ASSETS``, then in our cache, then on PATH, and built
from the pinned Go modules in ``tools/`` when none of these has a compatible one. Compatible means
the same minor release as the pin: the components of one control plane may not drift apart, and a
``kubectl`` more than one minor release away is unsupported
(https://kubernetes.io/releases/version-skew-policy/).
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Final

from controlplane import build, cache
from controlplane.errors import BuildError
from toolkit.compiling import estimate

TOOLS: Final = Path(__file__).parent / "tools"

_TOOLS: Final = ("kubernetes", "node")
_QUERY_SECONDS: Final = 20


class Variant(StrEnum):
    """What an instance is made of."""

    USUAL = "usual"
    NODE = "node"
    """A real node takes the place of kwok's."""
    OLDEST = "oldest"
    """Kubernetes is of the oldest release that Penstock supports."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """One program: the Go package that it is built from, and how it tells its version."""

    name: str
    package: str
    module: str
    """The Go module whose pinned version is the program's own."""
    tool: str
    """The directory below ``tools/`` whose go.mod pins it."""
    version_arguments: tuple[str, ...] = ("--version",)
    stamps: tuple[str, ...] = ()
    """Go packages whose ``gitVersion`` the linker sets."""
    owned: bool = False
    """Whether only our own build will do."""
    static: bool = False
    """Whether it runs in a container that has no C library."""

    @property
    def built(self) -> Path:
        """Where our own build is, or will be."""
        return cache_directory(oldest=self.tool == Variant.OLDEST) / self.name

    @cached_property
    def version(self) -> str:
        """The pinned version, such as ``v1.37.1``."""
        text = (TOOLS / self.tool / "go.mod").read_text()
        found = re.search(rf"^\s*(?:require )?{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if found is None:
            raise BuildError(f"tools/{self.tool}/go.mod does not require {self.module}")
        return found[1]


def _kubernetes(name: str, *version_arguments: str, tool: str = "kubernetes") -> Program:
    return Program(
        name=name,
        package=f"k8s.io/kubernetes/cmd/{name}",
        module="k8s.io/kubernetes",
        tool=tool,
        version_arguments=version_arguments or ("--version",),
        stamps=("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"),
        owned=tool == Variant.OLDEST,
    )


PROGRAMS: Final = (
    # One module, so that the versions of what they share are the same, and all are built in one go.
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl", "version", "--client"),
    Program(
        name="etcd",
        package="go.etcd.io/etcd/server/v3",
        module="go.etcd.io/etcd/server/v3",
        tool="kubernetes",
    ),
    Program(
        name="kwok",
        package="sigs.k8s.io/kwok/cmd/kwok",
        module="sigs.k8s.io/kwok",
        tool="kubernetes",
    ),
)

NODE_PROGRAMS: Final = (
    _kubernetes("kubelet"),
    _kubernetes("kube-proxy"),
    # Ours has fewer plugins than the usual one, so one on PATH does not count: see ``owned``.
    Program(
        name="coredns",
        package="./coredns",
        module="github.com/coredns/coredns",
        tool="node",
        owned=True,
        static=True,
    ),
    Program(
        name="pause",
        package="./pause",
        module="github.com/coredns/coredns",
        tool="node",
        owned=True,
        static=True,
    ),
)
"""What a real node needs beside them; nobody builds it who does not ask for a node."""

OLDEST_PROGRAMS: Final = tuple(
    _kubernetes(name, tool=Variant.OLDEST)
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
)

_VARIANTS: Final[Mapping[Variant, tuple[Program, ...]]] = MappingProxyType(
    {Variant.USUAL: (), Variant.NODE: NODE_PROGRAMS, Variant.OLDEST: OLDEST_PROGRAMS}
)


def locate(
    *names: str,
    variant: Variant = Variant.USUAL,
    report: Callable[[str], None] = lambda _: None,
) -> Mapping[str, Path]:
    """Return the path of every (named) program, building those that are nowhere to be found.

    ``report`` is told in a line what was passed over and why.

    Raises:
        BuildError: a program has to be built and cannot be.
    """
    wanted = [program for program in _of(variant) if program.name in names or not names]
    found = {program: _find(program, report=report) for program in wanted}
    missing = tuple(program for program, path in found.items() if path is None)
    if missing:
        _build(missing)
    return MappingProxyType(
        {program.name: path or program.built for program, path in found.items()}
    )


def missing(variant: Variant = Variant.USUAL) -> tuple[str, ...]:
    """Return the names of the programs that ``locate`` would have to build."""
    return tuple(each.name for each in _of(variant) if _find(each, report=lambda _: None) is None)


def _of(variant: Variant) -> tuple[Program, ...]:
    # Of two of one name the later one counts.
    return tuple({each.name: each for each in (*PROGRAMS, *_VARIANTS[variant])}.values())


def cache_directory(*, oldest: bool = False) -> Path:
    """Return the directory of the programs that we built: one per set of pins and platform."""
    release = OLDEST_PROGRAMS[0] if oldest else PROGRAMS[0]
    tools = (Variant.OLDEST,) if oldest else _TOOLS
    pins = [TOOLS / name / file for name in tools for file in build.PINS]
    pins += [] if oldest else sorted((TOOLS / "node").rglob("*.go"))
    digest = sha256(build.identity().encode())
    for path in pins:
        digest.update(path.read_bytes())
    return cache.directory("controlplane", f"{release.version}-{digest.hexdigest()[:8]}")


def _find(program: Program, *, report: Callable[[str], None]) -> Path | None:
    assets = "" if program.owned else os.environ.get("KUBEBUILDER_ASSETS")
    if assets and _compatible(program, Path(assets) / program.name, report=report):
        return Path(assets).absolute() / program.name
    # What we built needs no question, and PATH is not asked for what is already here.
    if program.built.is_file():
        return program.built
    on_path = None if program.owned else shutil.which(program.name)
    if on_path and _compatible(program, Path(on_path), report=report):
        return Path(on_path).absolute()
    return None


def _compatible(program: Program, path: Path, *, report: Callable[[str], None]) -> bool:
    if not path.is_file():
        return False
    found = _version(program, path)
    if _line(found) == _line(program.version):
        return True
    report(f"{path} is {found or 'of no known version'}, not {_line(program.version)}: not used")
    return False


def _version(program: Program, path: Path) -> str:
    try:
        answer = subprocess.run(
            [path, *program.version_arguments],
            capture_output=True,
            text=True,
            timeout=_QUERY_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\bv?(\d+\.\d+\.\d+\S*)", answer.stdout)
    return f"v{found[1]}" if found else ""


def _line(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _build(programs: tuple[Program, ...]) -> None:
    for (tool, static), group in groupby(programs, key=lambda each: (each.tool, each.static)):
        together = tuple(group)
        with build.turn(together[0].built.parent):
            # Another process may have built some while we waited for our turn.
            rest = tuple(each for each in together if not each.built.is_file())
            if rest:
                _build_together(rest, tool=tool, static=static)


def _build_together(programs: tuple[Program, ...], *, tool: str, static: bool) -> None:
    names = tuple(each.name for each in programs)
    stamps = {(package, each.version) for each in programs for package in each.stamps}
    targets = [build.Target(package=each.package, path=each.built) for each in programs]
    build.build(
        build.Batch(
            targets=targets,
            module_directory=TOOLS / tool,
            name=", ".join(names),
            cost=estimate.of(names),
            linker=tuple(flag for pair in sorted(stamps) for flag in build.stamps(*pair)),
            static=static,
        )
    )
