"""All plugins that are shipped, at once: nothing they are asked about keeps a cluster from living.

Namespaces go and a cluster starts, while the process answers and while it does not.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

import crds
from certs import injection
from controlplane import plane
from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import Gate, opened
from tests.tools import definitions, namespaces
from toolkit.decrypt import envelope
from toolkit.kube.errors import ApiError, NoMatchError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig
from toolkit.policy.provenance import LABEL as PROVENANCE
from webhooks import configuration, joint
from webhooks.plugins import PLUGINS

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
KUSTOMIZATION = GroupVersionKind(*crds.KUSTOMIZATION.gvk)
GIT_REPOSITORY = GroupVersionKind(*crds.GIT_REPOSITORY.gvk)
IMAGE_POLICY = GroupVersionKind(*crds.IMAGE_VERIFICATION_POLICY.gvk)
PROVENANCE_POLICY = GroupVersionKind(*crds.PROVENANCE_POLICY.gvk)
SECRET = GroupVersionKind("", "v1", "Secret")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
POD = GroupVersionKind("", "v1", "Pod")
HELD = ["finalizers.fluxcd.io"]


def _object(gvk: GroupVersionKind, name: str, namespace: str = "", **more: Any) -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata, **more}


def contents(namespace: str) -> list[Json]:
    """Return objects of all that plugins are asked about, some with finalizers."""
    source = {"kind": "GitRepository", "name": "app"}
    spec = {"interval": "1h", "prune": True, "sourceRef": source, "serviceAccountName": "robot"}
    encrypted = _object(SECRET, "encrypted", namespace, stringData={"a": "b"})
    encrypted["metadata"]["labels"] = {envelope.LABEL: envelope.ENABLED}
    labels = {"app": "web"}
    pod = {
        "containers": [{"name": "web", "image": "ghcr.io/acme/web:v1"}],
        "terminationGracePeriodSeconds": 1,
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    rolled = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    url = {"interval": "1h", "url": "https://git.example/app", "secretRef": {"name": "key"}}
    held = [
        _object(KUSTOMIZATION, "app", namespace, spec=spec),
        _object(GIT_REPOSITORY, "app", namespace, spec=url),
        encrypted,
    ]
    for each in held:
        each["metadata"]["finalizers"] = HELD
    # kinds of Kubernetes want it qualified
    encrypted["metadata"]["finalizers"] = [f"{name}/held" for name in HELD]
    return [
        *held,
        _object(SECRET, "key", namespace, stringData={"password": "x"}),
        _object(DEPLOYMENT, "web", namespace, spec=rolled),
    ]


def policies(namespace: str) -> list[Json]:
    """Return those without which some plugins are not asked."""
    mine = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    signed = {"name": "release", "cosign": {"secretRef": {"name": "keys"}}}
    image = {"namespaceSelector": mine, "images": ["ghcr.io/acme/**"], "verifiers": [signed]}
    origin = {"namespaceSelector": mine, "origins": [{"verifiedBy": ".+"}]}
    return [
        _object(IMAGE_POLICY, namespace, spec=image),
        _object(PROVENANCE_POLICY, namespace, spec=origin),
    ]


@contextlib.asynccontextmanager
async def installed(control_plane: ControlPlane) -> AsyncIterator[Gate]:
    """Install our kinds and the account; no process runs yet."""
    await asyncio.to_thread(definitions.install, control_plane)
    async with opened(control_plane) as gate:
        try:
            yield gate
        finally:
            for policy in policies(doomed(gate)):
                with contextlib.suppress(NotFoundError, NoMatchError):
                    gvk = GroupVersionKind.parse(policy["apiVersion"], policy["kind"])
                    await gate.admin.delete(gvk, policy["metadata"]["name"])


def doomed(gate: Gate) -> str:
    """Return the name of the namespace that goes."""
    return f"{gate.namespace}-doomed"


@pytest_asyncio.fixture
async def shipped(control_plane: ControlPlane) -> AsyncIterator[Gate]:
    async with installed(control_plane) as gate:
        yield gate


async def fill(gate: Gate, namespace: str) -> None:
    """Make the namespace with all its contents, before anybody is asked."""
    await gate.beside(namespace)

    async def served() -> bool:
        gate.admin.mapper.invalidate()
        with contextlib.suppress(NoMatchError):
            for obj in (*contents(namespace), *policies(namespace)):
                await gate.admin.apply(obj, manager="test")
            return True
        return False

    await gate.until(served)

    async def running() -> bool:
        return len(await gate.admin.list(POD, namespace)) == 2

    await gate.until(running)
    labels = {"metadata": {"labels": {PROVENANCE: "production"}}}
    await gate.admin.patch(NAMESPACE, namespace, "", labels, strategy="merge")


async def armed(gate: Gate) -> bool:
    """Tell whether the API server asks every plugin."""
    wanted = {f"{row.name}.{configuration.DOMAIN}" for row in joint.asked(PLUGINS)}
    found: set[str] = set()
    for kind in (injection.MUTATING, injection.VALIDATING):
        with contextlib.suppress(NotFoundError):
            live = await gate.admin.get(kind, configuration.CONFIGURATION)
            found |= {each["name"] for each in live["webhooks"]}
    return found == wanted


async def refusal(gate: Gate, obj: Json) -> str:
    try:
        await gate.admin.create(obj)
    except ApiError as exc:
        return str(exc)
    return ""


@pytest.mark.parametrize(
    "up", [pytest.param(True, marks=pytest.mark.slow, id="up"), pytest.param(False, id="down")]
)
async def test_a_namespace_with_all_that_plugins_are_asked_about_goes(
    shipped: Gate, *, up: bool
) -> None:
    space = doomed(shipped)
    await fill(shipped, space)
    replica = await shipped.start(*PLUGINS)
    await shipped.until(lambda: armed(shipped))
    another = _object(KUSTOMIZATION, "late", space, spec=contents(space)[0]["spec"])

    async def protected() -> str:
        said = await refusal(shipped, another)
        return said if "only objects from a repository" in said else ""

    await shipped.until(protected)
    if not up:
        await replica.stop()
        assert "failed calling webhook" in await refusal(shipped, another)

    await shipped.admin.delete(NAMESPACE, space)

    # what the controllers do once an object is deleted
    for obj in contents(space)[:3]:
        gvk = GroupVersionKind.parse(obj["apiVersion"], obj["kind"])
        await release(shipped, gvk, obj["metadata"]["name"], space)
    await namespaces.gone(shipped.admin, space)


async def release(gate: Gate, gvk: GroupVersionKind, name: str, namespace: str) -> None:
    async def deleted() -> bool:
        live = await gate.admin.get(gvk, name, namespace)
        return bool(dig(live, "metadata", "deletionTimestamp"))

    await gate.until(deleted)
    bare: Json = {"metadata": {"finalizers": None}}
    await gate.admin.patch(gvk, name, namespace, bare, strategy="merge")


@pytest.fixture
def cold() -> Iterator[ControlPlane]:
    """Run a control plane that the test may end and start again."""
    with plane.start("pytest-cold", alternatives=8) as running:
        yield running


_PARTS = ("kube-scheduler", "kube-controller-manager", "kube-apiserver")


@pytest.mark.slow
async def test_a_cluster_starts_with_everything_registered_and_nobody_there(
    cold: ControlPlane,
) -> None:
    async with installed(cold) as gate:
        await fill(gate, doomed(gate))
        network = f"{gate.namespace}-network"
        await gate.admin.create(_object(NAMESPACE, network))
        replica = await gate.start(*PLUGINS, webhook_exempt_namespaces=(network,))
        await gate.until(lambda: armed(gate))
        await replica.stop()

        for part in _PARTS:
            await asyncio.to_thread(cold.stop_component, part)
        for part in reversed(_PARTS):
            await asyncio.to_thread(cold.start_component, part)

        # the cluster itself lives: nodes, controllers, the scheduler, what nodes need to start, and
        # the place that we run in
        for namespace in ("kube-system", network, gate.namespace):
            await gate.until(lambda space=namespace: runs(gate, space))
        fresh = f"{gate.namespace}-fresh"
        await gate.admin.create(_object(NAMESPACE, fresh))
        await gate.until(lambda: has_account(gate, fresh))
        late = _object(KUSTOMIZATION, "late", fresh, spec=contents(fresh)[0]["spec"])
        assert "failed calling webhook" in await refusal(gate, late)
        pod = _object(POD, "web", fresh, spec={"containers": [{"name": "a", "image": "a"}]})
        assert "failed calling webhook" in await refusal(gate, pod)
        # and then we come, and are asked
        await gate.start(*PLUGINS)

        async def answered() -> bool:
            wrong = {**late, "spec": {**late["spec"], "patches": [{"patch": "no patch"}]}}
            return "spec.patches[0]" in await refusal(gate, wrong)

        await gate.until(answered)
        assert await refusal(gate, late) == ""


async def runs(gate: Gate, namespace: str) -> bool:
    """Tell whether a Pod that is made there gets a node and runs."""
    pod = {"containers": [{"name": "a", "image": "ghcr.io/acme/web:v1"}]}
    with contextlib.suppress(ApiError):
        await gate.admin.apply(_object(POD, "alive", namespace, spec=pod), manager="test")
        live = await gate.admin.get(POD, "alive", namespace)
        return bool(dig(live, "status", "phase") == "Running")
    return False


async def has_account(gate: Gate, namespace: str) -> bool:
    """Tell whether the controllers of the cluster gave a namespace what each of them gets."""
    with contextlib.suppress(NotFoundError):
        gvk = GroupVersionKind("", "v1", "ServiceAccount")
        return bool(await gate.admin.get(gvk, "default", namespace))
    return False
