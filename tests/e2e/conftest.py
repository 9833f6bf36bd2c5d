"""The whole product for end-to-end tests: control plane, Penstock's processes, a Git server.

``world`` serves the whole run; each test works in a namespace of its own (``space``). Tests that
stop processes or the API server carry the marker ``rough`` and get theirs in a world that is set
right again after each of them. What needs other flags or another API server makes a world of its
own with ``build_world``. ``tests.tools.distribution`` has a row for each world.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from cli.stack import stack as stacks
from cli.stack.liveness import Probe
from controlplane import plane as planes
from controlplane.plane import ControlPlane
from tests.fakes import objectservers
from tests.fakes.gitserver import Faults, GitServer, Repository
from tests.fakes.keyservices import KeyServices
from tests.fakes.objectservers import S3Server
from tests.tools import health, leaders, leftovers, namespaces, programs, restoring, waiting
from tests.tools.administrator import Administrator
from tests.tools.leaders import Leader
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig

GIT_REPOSITORY = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
KUSTOMIZATION = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SECRET = GroupVersionKind("", "v1", "Secret")
SERVICE_ACCOUNT = GroupVersionKind("", "v1", "ServiceAccount")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
EVENT = GroupVersionKind("", "v1", "Event")

LEASE = leaders.LEASE
QUICK_LEASE = (
    "--leader-election-lease-duration=8s",
    "--leader-election-renew-deadline=6s",
    "--leader-election-retry-period=500ms",
)
"""Flags with which a replica takes over soon, and none does because the machine is busy."""

ACCOUNTS = "--feature-gates=ObjectLevelWorkloadIdentity=true"
ROUGH = {
    # A quota that only test_storage_quota.py exceeds. Only test_artifactgenerator_failures.py and
    # test_missing_grants.py refer to sources of other namespaces.
    "source": (*QUICK_LEASE, "--storage-namespace-quota=700Ki", "--no-cross-namespace-refs"),
    "kustomize": (*QUICK_LEASE, ACCOUNTS, "--cross-namespace-refs=warn"),
    "helm": QUICK_LEASE,
    "image": QUICK_LEASE,
    "webhooks": (ACCOUNTS, "--cross-namespace-refs=warn"),
}
"""What the rough world's components are told; one world serves tests that need one flag each."""
_TOKENS = Path(__file__).parents[2] / "deploy/components/workload-identity"
_BINDING = "rbac.authorization.k8s.io/v1"

DEADLINE = waiting.SECONDS
"""Seconds after which what was waited for is not coming; never a measure of speed."""

Test = Callable[[Json], bool]


@dataclass(frozen=True, kw_only=True)
class World:
    """Everything that runs."""

    plane: ControlPlane
    stack: stacks.Stack
    api: Client
    git: GitServer

    async def apply(self, *objects: Json) -> None:
        """Apply objects as a user with kubectl would."""
        for obj in objects:
            await self.api.apply(obj, manager="kubectl")

    async def until(
        self,
        gvk: GroupVersionKind,
        namespace: str,
        name: str,
        holds: Test,
        *,
        within: float = DEADLINE,
    ) -> Json:
        """Return the object once ``holds`` is true of it; fail with its last state."""
        deadline = time.monotonic() + within
        obj: Json = {}
        while time.monotonic() < deadline:
            try:
                obj = await self.api.get(gvk, name, namespace)
            except NotFoundError:
                obj = {}
            if obj and holds(obj):
                return obj
            await asyncio.sleep(0.05)
        shown = yaml.safe_dump(obj.get("status") or obj)
        pytest.fail(f"{gvk.kind} {namespace}/{name} did not get there; it is\n{shown}")

    async def gone(self, gvk: GroupVersionKind, namespace: str, name: str) -> None:
        """Return once the object does not exist."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            try:
                await self.api.get(gvk, name, namespace)
            except NotFoundError:
                return
            await asyncio.sleep(0.05)
        pytest.fail(f"{gvk.kind} {namespace}/{name} is still there")

    async def leader(self, component: str) -> Leader:
        """Return the replica that leads, once one does."""
        return await leaders.find(self.stack, self.api, component)

    async def kill_leader(self, component: str) -> Leader:
        """Kill the replica that leads; the next one that is ready leads without waiting."""
        found = await self.leader(component)
        await leaders.kill(self.stack, self.api, found)
        return found

    async def exists(self, gvk: GroupVersionKind, namespace: str, name: str) -> bool:
        try:
            await self.api.get(gvk, name, namespace)
        except NotFoundError:
            return False
        return True


@dataclass(kw_only=True)
class Space:
    """One test's namespace in a world, and shorthands for what most tests need."""

    world: World
    namespace: str
    repositories: list[Repository] = field(default_factory=list)

    def repository(self, name: str = "app") -> Repository:
        """Make a repository that is served under a name of this namespace."""
        made = self.world.git.repository(f"{self.namespace}-{name}")
        self.repositories.append(made)
        return made

    def source(self, repository: Repository, name: str = "app", **spec: Any) -> Json:
        """Return a GitRepository that follows ``main``; looks every minute unless told to."""
        return {
            "apiVersion": GIT_REPOSITORY.api_version,
            "kind": "GitRepository",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "interval": "1m",
                "url": repository.url,
                "ref": {"branch": "main"},
                **spec,
            },
        }

    def kustomization(self, name: str = "app", **spec: Any) -> Json:
        """Return a Kustomization of the GitRepository ``app`` into this namespace."""
        return {
            "apiVersion": KUSTOMIZATION.api_version,
            "kind": "Kustomization",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "interval": "10m",
                "retryInterval": "2s",
                "prune": True,
                "targetNamespace": self.namespace,
                "sourceRef": {"kind": "GitRepository", "name": "app"},
                **spec,
            },
        }

    async def ready(
        self, gvk: GroupVersionKind = KUSTOMIZATION, name: str = "app", *, revision: str = ""
    ) -> Json:
        """Return the object once it is Ready at its generation (and at a commit)."""
        return await self.world.until(
            gvk, self.namespace, name, lambda obj: is_ready(obj) and revision in revision_of(obj)
        )

    async def lend_tokens(self, controller: str = "kustomize-controller") -> None:
        """Let a controller make tokens of the namespace's accounts, as an operator would."""
        role = f"penstock-{controller}-workload-identity"
        subject = {"kind": "ServiceAccount", "name": controller}
        await self.world.apply(
            {
                "apiVersion": _BINDING,
                "kind": "RoleBinding",
                "metadata": {"name": role, "namespace": self.namespace},
                "roleRef": {"apiGroup": _BINDING[:-3], "kind": "ClusterRole", "name": role},
                "subjects": [subject | {"namespace": self.world.stack.options.namespace}],
            }
        )

    async def refused(
        self, gvk: GroupVersionKind = KUSTOMIZATION, name: str = "app", *, saying: str = ""
    ) -> Json:
        """Return the object once it is Ready=False with a message that holds ``saying``."""

        def holds(obj: Json) -> bool:
            ready = condition(obj, "Ready")
            return ready.get("status") == "False" and saying in ready.get("message", "")

        return await self.world.until(gvk, self.namespace, name, holds)

    async def request(self, gvk: GroupVersionKind = KUSTOMIZATION, name: str = "app") -> None:
        """Ask for a reconcile as ``flux reconcile`` does, and wait until it was handled."""
        stamp = str(time.time_ns())
        await self.world.api.patch(
            gvk,
            name,
            self.namespace,
            {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": stamp}}},
            strategy="merge",
        )
        await self.world.until(
            gvk,
            self.namespace,
            name,
            lambda obj: dig(obj, "status", "lastHandledReconcileAt") == stamp,
        )

    async def told(
        self, text: str, gvk: GroupVersionKind = KUSTOMIZATION, name: str = "app"
    ) -> Json:
        """Return an event about an object that says something; they are told in the background."""
        selector = f"involvedObject.kind={gvk.kind},involvedObject.name={name}"

        async def look() -> Json | None:
            events = await self.world.api.list(EVENT, self.namespace, field_selector=selector)
            return next((event for event in events if text in event["message"]), None)

        found: Json = await waiting.until(look)
        return found

    async def get(self, gvk: GroupVersionKind, name: str) -> Json:
        return await self.world.api.get(gvk, name, self.namespace)

    def noted(self, component: str, replica: int = 0, *, saying: str = "") -> int:
        """Return how many lines a process has logged of passes over objects of the namespace."""
        log = self.world.stack.log(component, replica=replica).read_text()
        return sum(
            "reconcileID" in line and self.namespace in line and saying in line
            for line in log.splitlines()
        )

    async def acting(self, component: str) -> int:
        """Return the first replica that has noted a pass here; a status is written before that."""
        replicas = range(self.world.stack.options.replicas)
        found = await waiting.until(lambda: [n for n in replicas if self.noted(component, n)])
        return int(found[0])

    async def suspend(self, gvk: GroupVersionKind = KUSTOMIZATION, name: str = "app") -> None:
        """Suspend an object, and wait until its reconciler knows and has ended its last pass.

        Before that it may still answer to changes of others, which reach it by other watches.
        """
        component = gvk.group.partition(".")[0]
        saying = "suspended for this object"
        before = self.noted(component, saying=saying)
        change = {"spec": {"suspend": True}}
        await self.world.api.patch(gvk, name, self.namespace, change, strategy="merge")
        await waiting.until(lambda: self.noted(component, saying=saying) > before)


def condition(obj: Json, kind: str) -> Json:
    """Return a condition, empty if there is none."""
    conditions = dig(obj, "status", "conditions", default=[])
    return next((row for row in conditions if row["type"] == kind), {})


def is_ready(obj: Json) -> bool:
    """Tell whether the object is Ready at its present generation."""
    generation = dig(obj, "metadata", "generation")
    return (
        condition(obj, "Ready").get("status") == "True"
        and dig(obj, "status", "observedGeneration") == generation
    )


def revision_of(obj: Json) -> str:
    """Return the revision that a source stored or a Kustomization applied."""
    artifact = dig(obj, "status", "artifact", "revision", default="")
    return str(artifact or dig(obj, "status", "lastAppliedRevision", default=""))


def owned(obj: Json, manager: str = "kustomize-controller") -> list[str]:
    """Return the data keys that a controller's apply owns."""
    entries = dig(obj, "metadata", "managedFields", default=[])
    (entry,) = [each for each in entries if each["manager"] == manager]
    return sorted(entry["fieldsV1"].get("f:data", {}))


def config_map(name: str, **data: str) -> str:
    """Return the manifest of a ConfigMap."""
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    )


def deployment(name: str, *, replicas: int = 1, image: str = "registry.example/app:1") -> str:
    """Return the manifest of a Deployment that becomes available at once."""
    labels = {"app": name}
    return yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "app", "image": image}]},
                },
            },
        }
    )


_TAKEN: set[str] = set()


@asynccontextmanager
async def build_world(
    plane: ControlPlane,
    directory: Path,
    *,
    flags: Mapping[str, Sequence[str]] | None = None,
    env: Mapping[str, str] | None = None,
    replicas: int = 1,
    components: Sequence[str] = stacks.EVERYTHING,
    namespace: str = stacks.NAMESPACE,
) -> AsyncIterator[World]:
    """Run everything, or some components, on a control plane where no other world is."""
    assert plane.server not in _TAKEN, f"a world runs on {plane.name} and acts on everything there"
    quick = ("--min-retry-delay=200ms", "--max-retry-delay=2s", "--requeue-dependency=1s")
    # Services and issuers of tests are on loopback.
    extra = {"notification": ("--provider-internal-namespaces=*",), **(flags or {})}
    options = stacks.Options(
        namespace=namespace,
        flags={name: (*quick, *extra.get(name, ())) for name in components},
        components=tuple(components),
        env={**(env or {}), "PENSTOCK_TEST": os.environ.get("PYTEST_CURRENT_TEST", "")},
        replicas=replicas,
        # Tests freeze processes until their leases are over.
        probe=Probe(period=3600),
        report=lambda _: None,
    )
    admin = config.from_environment(str(plane.kubeconfig))
    _TAKEN.add(plane.server)
    try:
        async with (
            GitServer(directory / "git") as git,
            Client.open(admin) as api,
            stacks.start(plane.kubeconfig, state=directory / "state", options=options) as stack,
        ):
            yield World(plane=plane, stack=stack, api=api, git=git)
    finally:
        _TAKEN.remove(plane.server)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """Run one world for all tests that leave it as it was."""
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as admin:
        await leftovers.remove(admin)
    async with build_world(control_plane, tmp_path_factory.mktemp("world")) as built:
        with health.shared("the stack", lambda: health.check_stack(built.stack)):
            yield built


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def ungated_world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Run one world without the gate, on a control plane of its own."""
    with planes.start("pytest-ungated", alternatives=8) as plane:
        directory = tmp_path_factory.mktemp("ungated")
        async with build_world(plane, directory, components=stacks.CONTROLLERS) as built:
            with health.shared("the ungated stack", lambda: health.check_stack(built.stack)):
                yield built


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def key_services(second_control_plane: ControlPlane) -> AsyncIterator[KeyServices]:
    """Run key services that know the issuer of the rough world's cluster."""
    get = ("get", "--raw")
    document = json.loads(second_control_plane.kubectl(*get, "/.well-known/openid-configuration"))
    keys = json.loads(second_control_plane.kubectl(*get, "/openid/v1/jwks"))
    async with KeyServices.running(document["issuer"], keys) as services:
        yield services


@dataclass
class RoughWorld:
    """A world that tests break, and why it could not be set right, if so."""

    world: World
    broken: str = ""

    async def restore(self, *, replicas: int) -> None:
        """Have no fault in the Git server, and so many replicas of each controller ready."""
        self.world.git.faults = Faults()
        try:
            await restoring.restore(self.world.stack, replicas=replicas)
        except Exception as exc:
            self.broken = str(exc) or repr(exc)
            raise

    def check(self) -> None:
        """Raise if the world could not be set right: no later test could use it."""
        if self.broken:
            raise health.BrokenError(self.broken)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def rough_world(
    second_control_plane: ControlPlane,
    key_services: KeyServices,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[RoughWorld]:
    """Run two replicas of everything, away from the shared world, whose processes act on it all."""
    for file in ("rbac.yaml", "webhook.yaml"):
        second_control_plane.kubectl("apply", "-f", str(_TOKENS / file))
    async with build_world(
        second_control_plane,
        tmp_path_factory.mktemp("rough"),
        flags=ROUGH,
        env={"AWS_ENDPOINT_URL": key_services.address},
        replicas=2,
    ) as built:
        rough = RoughWorld(built)
        with health.shared("the rough stack", rough.check):
            yield rough


@pytest_asyncio.fixture(loop_scope="session")
async def rough_space(
    request: pytest.FixtureRequest, rough_world: RoughWorld
) -> AsyncIterator[Space]:
    """Give the test its own namespace in the rough world, and set that right before and after.

    ``@pytest.mark.rough(replicas=2)`` is for tests of two replicas; others get one.
    """
    marker = request.node.get_closest_marker("rough")
    replicas = marker.kwargs.get("replicas", 1)
    await rough_world.restore(replicas=replicas)
    space = Space(world=rough_world.world, namespace=namespaces.unused())
    metadata = {"name": space.namespace}
    await space.world.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    yield space
    await rough_world.restore(replicas=replicas)
    with suppress(NotFoundError):
        await space.world.api.delete(NAMESPACE, space.namespace)


@pytest.fixture
def namespace(administrator: Administrator) -> Iterator[str]:
    """Make a namespace for one test. What stays would be tried again until the end of the run."""
    name = namespaces.create_blocking(administrator)
    yield name
    namespaces.delete_blocking(administrator, name)


@pytest.fixture
def space(request: pytest.FixtureRequest) -> Iterator[Space]:
    """Give the test its own namespace in the shared world, or in the one that a marker names.

    ``@pytest.mark.rough`` is for tests that stop, freeze and kill processes.
    ``@pytest.mark.ungated`` is for what reconcilers say of objects that the gate would refuse:
    objects may be older than it, and the gate may be away.
    """
    if request.node.get_closest_marker("rough"):
        yield request.getfixturevalue("rough_space")
        return
    if request.node.get_closest_marker("ungated"):
        world = request.getfixturevalue("ungated_world")
        with Administrator.of(world.plane) as administrator:
            name = namespaces.create_blocking(administrator)
            yield Space(world=world, namespace=name)
            namespaces.delete_blocking(administrator, name)
        return
    yield Space(
        world=request.getfixturevalue("world"), namespace=request.getfixturevalue("namespace")
    )


@pytest.fixture(scope="session")
def versitygw_program() -> Path:
    return programs.path("versitygw")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def s3(
    versitygw_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[S3Server]:
    """Run an S3 server for all tests; each makes a bucket of its own."""
    root = tmp_path_factory.mktemp("s3") / "root"
    root.mkdir()
    async with objectservers.s3(versitygw_program, root) as running:
        yield running


Wait = Callable[[], Awaitable[None]]
