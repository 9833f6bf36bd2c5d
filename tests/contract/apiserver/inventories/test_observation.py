"""What the watches show of objects that somebody else applies, on a real API server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from apiserver.inventories.appliers import APPLIERS, Applied
from apiserver.inventories.projection import Inventories
from apiserver.view import View
from controlplane.plane import ControlPlane
from tests.tools.waiting import SECONDS
from toolkit.apply import ownership
from toolkit.apply.options import MANAGER
from toolkit.expressions.evaluator import Evaluator
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.kube.informer import Change
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef, ref_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

READER = "inventory-test-reader"
_RBAC = {"apiVersion": "rbac.authorization.k8s.io/v1"}


class Scene:
    """Inventories that a test lists by hand, and an administrator who applies."""

    def __init__(self, admin: Client, api: Client, namespace: str, evaluates: Evaluator) -> None:
        self.admin = admin
        self.view = View(kind="Inventory", api_version="gitops.penstock.dev/v1alpha1", tag=1)
        self.inventories = Inventories(api, APPLIERS[0], self.view, evaluates=evaluates)
        self.key = ObjectKey(namespace, "app")
        self.owner = ownership.Owner(namespace=namespace, name="app")
        self._last: Applied | None = None
        self.view.complete()

    def make(self, kind: str, name: str, api_version: str = "v1", **fields: Any) -> Json:
        metadata = {"name": name, "namespace": self.key.namespace}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}

    async def apply(self, obj: Json) -> ObjectRef:
        await self.admin.apply(ownership.own(obj, self.owner), manager=MANAGER)
        return ref_of(obj)

    def list(self, *refs: ObjectRef, **changes: Any) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "R", "message": "m"}
        new = Applied(
            key=self.key,
            uid="u",
            resource_version="1",
            created="2026-01-01T00:00:00Z",
            conditions=(ready | {"lastTransitionTime": "2026-01-01T00:00:00Z"},),
            refs=refs,
            **changes,
        )
        old, self._last = self._last, new
        self.inventories.applier(Change("MODIFIED", self.key, old, new))

    async def until(self, holds: Callable[[Json], bool]) -> Json:
        """Return the status once something is true of it."""
        status: Json = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                while not (status and holds(status)):
                    item = self.view.get(self.key)
                    status = item.obj["status"] if item else {}
                    await asyncio.sleep(0.02)
                return status
        pytest.fail(f"the inventory did not get there: {status}")


@contextlib.asynccontextmanager
async def running(scene: Scene) -> AsyncIterator[Scene]:
    task = asyncio.create_task(scene.inventories.run())
    try:
        yield scene
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest_asyncio.fixture(loop_scope="module")
async def scene(admin: Client, namespace: str, evaluates: Evaluator) -> AsyncIterator[Scene]:
    async with running(Scene(admin, admin, namespace, evaluates)) as started:
        yield started


async def test_drift_is_seen_healed_and_attributed(scene: Scene) -> None:
    conf = await scene.apply(scene.make("ConfigMap", "a", data={"v": "1", "w": "1"}))
    scene.list(conf)
    await scene.until(lambda status: status["ready"] == "True")

    await scene.admin.apply(scene.make("ConfigMap", "a", data={"v": "2"}), manager="thief")
    drifted = await scene.until(lambda status: status["drifted"] == 1)
    await scene.apply(scene.make("ConfigMap", "a", data={"v": "1", "w": "1"}))
    healed = await scene.until(lambda status: status["drifted"] == 0)

    assert drifted["problems"][0]["changedBy"] == ["thief"]
    assert healed["ready"] == "True"


async def test_a_new_apply_and_fields_of_others_are_no_drift(scene: Scene) -> None:
    conf = await scene.apply(scene.make("ConfigMap", "a", data={"v": "1"}))
    mark = await scene.apply(scene.make("ConfigMap", "mark"))
    scene.list(conf, mark)
    await scene.until(lambda status: status["current"] == 2)

    await scene.apply(scene.make("ConfigMap", "a", data={"other": "2"}))
    await scene.admin.apply(scene.make("ConfigMap", "a", data={"theirs": "1"}), manager="friend")
    await scene.admin.delete(mark.gvk, "mark", scene.key.namespace)
    status = await scene.until(lambda status: status["missing"] == 1)

    assert status["drifted"] == 1


async def test_what_was_deleted_and_made_anew_by_another_has_drifted(scene: Scene) -> None:
    conf = await scene.apply(scene.make("ConfigMap", "a", data={"v": "1"}))
    scene.list(conf)
    await scene.until(lambda status: status["current"] == 1)

    await scene.admin.delete(conf.gvk, "a", scene.key.namespace)
    await scene.until(lambda status: status["missing"] == 1)
    forged = ownership.own(scene.make("ConfigMap", "a", data={"v": "1"}), scene.owner)
    await scene.admin.create(forged)
    status = await scene.until(lambda status: status["missing"] == 0)

    assert status["drifted"] == 1


async def test_what_was_never_there_is_looked_for(scene: Scene) -> None:
    conf = await scene.apply(scene.make("ConfigMap", "a"))
    never = ref_of(scene.make("ConfigMap", "never"))
    await scene.admin.create(scene.make("ConfigMap", "unlabelled"))
    skipped = ref_of(scene.make("ConfigMap", "unlabelled"))

    scene.list(conf, never, skipped)
    status = await scene.until(lambda status: status["missing"] == 1 and status["unobserved"] == 1)

    told = {one["name"]: one for one in status["problems"]}
    assert told["never"]["drift"] == "Missing"
    assert "was not applied" in told["unlabelled"]["message"]


async def test_kinds_that_are_not_served_are_unobserved(scene: Scene) -> None:
    conf = await scene.apply(scene.make("ConfigMap", "a"))
    ghost = ObjectRef(GroupVersionKind("gone.example", "v1", "Ghost"), scene.key.namespace, "g")

    scene.list(conf, ghost)
    status = await scene.until(lambda status: status["ready"] == "True")

    assert (status["observed"], status["unobserved"]) == (1, 1)
    assert "not served" in status["problems"][0]["message"]


def role(namespace: str, *resources: str) -> Json:
    """Return a right to watch, in all namespaces; its name is the test's own."""
    rule = {"apiGroups": [""], "resources": [*resources], "verbs": ["get", "list", "watch"]}
    metadata = {"name": f"{READER}-{namespace}"}
    return {**_RBAC, "kind": "ClusterRole", "metadata": metadata, "rules": [rule]}


@pytest_asyncio.fixture(loop_scope="module")
async def restricted(
    control_plane: ControlPlane, admin: Client, namespace: str, evaluates: Evaluator
) -> AsyncIterator[Scene]:
    """Give a scene whose watches are those of an account that may watch ConfigMaps."""
    account = f"system:serviceaccount:{namespace}:{READER}"
    made = role(namespace, "configmaps")
    group = "rbac.authorization.k8s.io"
    binding = {
        **_RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": made["metadata"],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": made["metadata"]["name"]},
        "subjects": [{"apiGroup": group, "kind": "User", "name": account}],
    }
    for obj in (made, binding):
        await admin.apply(obj, manager="test")
    async with (
        Client.open(config.from_environment(str(control_plane.kubeconfig))) as client,
        running(Scene(admin, client.impersonating(account), namespace, evaluates)) as started,
    ):
        yield started


async def test_kinds_that_may_not_be_watched_are_unobserved(restricted: Scene) -> None:
    conf = await restricted.apply(restricted.make("ConfigMap", "a"))
    secret = await restricted.apply(restricted.make("Secret", "s", data={"p": "aGlkZGVu"}))

    restricted.list(conf, secret)
    status = await restricted.until(
        lambda status: (status["observed"], status["current"], status["unobserved"]) == (1, 1, 1)
    )

    assert status["ready"] == "True"
    assert "may not be watched" in status["problems"][0]["message"]


async def test_rights_that_come_are_noticed(restricted: Scene) -> None:
    secret = await restricted.apply(restricted.make("Secret", "s", data={"p": "aGlkZGVu"}))
    restricted.list(secret)
    await restricted.until(lambda status: status["unobserved"] == 1 and status["problems"])

    more = role(restricted.key.namespace, "configmaps", "secrets")
    await restricted.admin.apply(more, manager="test")
    status = await restricted.until(lambda status: status["current"] == 1)

    assert (status["unobserved"], status["ready"]) == (0, "True")
    found = restricted.inventories.observation.find(secret)
    assert found is not None
    assert "aGlkZGVu" not in repr(found)
