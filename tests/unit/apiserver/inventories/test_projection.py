"""From events to what is served, with nothing but memory."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from apiserver.inventories import columns
from apiserver.inventories.appliers import Applied, kustomization
from apiserver.inventories.model import Inventory
from apiserver.inventories.projection import Inventories
from apiserver.item import Item
from apiserver.view import View
from tests.fakes.evaluating import NoEvaluator
from tests.unit.apiserver.inventories.scene import (
    APPLIER,
    CONFIG_MAP,
    KEY,
    REF,
    applied,
    seen,
)
from toolkit.apply.fields import Writer
from toolkit.apply.health import Status
from toolkit.kube.client import Client
from toolkit.kube.config import ClusterConfig
from toolkit.kube.informer import Change
from toolkit.objects import Json, ObjectKey, ObjectRef

SECOND = ObjectRef(CONFIG_MAP, "shop", "second")


class Scene:
    """Inventories whose watches show what a test says."""

    def __init__(self, api: Client) -> None:
        self.view = View(kind="Inventory", api_version="gitops.penstock.dev/v1alpha1", tag=1)
        self.inventories = Inventories(api, APPLIER, self.view, evaluates=NoEvaluator())
        self.now = 0.0
        self.reasons: dict[tuple[str, str], str] = {}
        self.read: list[ObjectRef] = []
        self._old: dict[ObjectKey, Applied] = {}
        observation: Any = self.inventories.observation
        observation.reason = lambda ref: self.reasons.get(ref.gvk.group_kind, "")
        observation.read_later = self.read.append

    def applier(self, new: Applied | None, key: ObjectKey = KEY) -> None:
        old = self._old.pop(key, None)
        if new is not None:
            self._old[key] = new
        self.inventories.applier(Change("MODIFIED", key, old, new))

    async def shown(self, key: ObjectKey = KEY) -> Json:
        return (await self.item(key)).obj

    async def item(self, key: ObjectKey = KEY) -> Item:
        await self.inventories.flush()
        item = self.view.get(key)
        assert item is not None
        return item


@pytest.fixture
async def scene() -> Any:
    async with Client.open(ClusterConfig(server="http://127.0.0.1:1", namespace="x")) as api:
        yield Scene(api)


async def test_totals_follow_events_of_objects(scene: Scene) -> None:
    scene.applier(applied(REF, SECOND))
    scene.inventories.seen(REF, seen())
    scene.inventories.seen(SECOND, seen(Status.IN_PROGRESS, resource_version="12"))
    before = (await scene.shown())["status"]

    scene.inventories.seen(SECOND, seen(resource_version="13"))
    after = (await scene.shown())["status"]

    assert (before["objects"], before["observed"], before["current"]) == (2, 2, 1)
    assert (before["ready"], before["message"]) == ("False", "1 not current yet")
    assert (after["current"], after["ready"], after["problems"]) == (2, "True", [])


async def test_drift_is_counted_and_named(scene: Scene) -> None:
    scene.applier(applied(REF))
    scene.inventories.seen(REF, seen())
    scene.now = 60
    taken = seen(entry="less", writers=(Writer("kubectl-edit", "Update", "1"),))

    scene.inventories.seen(REF, taken)
    status = (await scene.shown())["status"]

    assert (status["drifted"], status["missing"], status["ready"]) == (1, 0, "False")
    (problem,) = status["problems"]
    assert (problem["drift"], problem["changedBy"]) == ("Changed", ["kubectl-edit"])


async def test_objects_of_nobodys_inventory_are_ignored(scene: Scene) -> None:
    scene.applier(applied(REF))

    scene.inventories.seen(SECOND, seen())

    assert (await scene.shown())["status"]["objects"] == 1


async def test_an_object_that_leaves_the_inventory_is_forgotten(scene: Scene) -> None:
    scene.applier(applied(REF, SECOND))
    scene.inventories.seen(SECOND, seen(Status.FAILED))

    scene.applier(applied(REF))
    status = (await scene.shown())["status"]

    assert (status["objects"], status["failed"]) == (1, 0)
    scene.inventories.seen(SECOND, None)


async def test_one_object_in_two_inventories_counts_in_each(scene: Scene) -> None:
    other = ObjectKey("shop", "other")
    scene.applier(applied(REF))
    scene.applier(replace(applied(REF), key=other), other)

    scene.inventories.seen(REF, seen())

    assert (await scene.shown())["status"]["current"] == 1
    assert (await scene.shown(other))["status"]["foreign"] == 1


async def test_an_applier_that_goes_takes_its_inventory_along(scene: Scene) -> None:
    scene.applier(applied(REF))
    await scene.shown()

    scene.applier(None)

    assert scene.view.get(KEY) is None
    scene.inventories.seen(REF, seen())
    await scene.inventories.flush()
    assert len(scene.view) == 0


async def test_a_kind_that_may_not_be_watched_is_unobserved(scene: Scene) -> None:
    scene.applier(applied(REF))
    scene.inventories.seen(REF, seen())
    scene.reasons[CONFIG_MAP.group_kind] = "ConfigMap may not be watched"

    scene.inventories.kind_changed(CONFIG_MAP.group_kind)
    status = (await scene.shown())["status"]

    assert (status["observed"], status["unobserved"], status["ready"]) == (0, 1, "True")
    assert status["problems"][0]["message"] == "ConfigMap may not be watched"


async def test_a_failing_applier_is_not_ready_whatever_its_objects_say(scene: Scene) -> None:
    failed = {"type": "Ready", "status": "False", "reason": "BuildFailed", "message": "no\nyaml"}
    scene.applier(applied(REF, conditions=(failed,)))
    scene.inventories.seen(REF, seen())

    status = (await scene.shown())["status"]

    assert (status["current"], status["ready"], status["message"]) == (1, "False", "no")
    assert status["conditions"] == [failed]


async def test_what_no_watch_shows_is_looked_for_once_its_applier_is_done(scene: Scene) -> None:
    scene.applier(applied(REF, busy=True))
    assert scene.read == []

    scene.applier(applied(REF))
    scene.inventories.looked(REF, exists=False)

    assert scene.read == [REF]
    assert (await scene.shown())["status"]["missing"] == 1


async def test_a_large_inventory_stays_a_small_object(scene: Scene) -> None:
    refs = [ObjectRef(CONFIG_MAP, "shop", f"c{number:04}") for number in range(2000)]
    scene.applier(applied(*refs))
    for ref in refs:
        scene.inventories.seen(ref, seen(Status.FAILED))

    shown = await scene.shown()

    assert (shown["status"]["objects"], shown["status"]["failed"]) == (2000, 2000)
    assert [row["name"] for row in shown["status"]["problems"]] == [f"c000{n}" for n in range(10)]
    assert len(msgspec.json.encode(shown)) < 8000


async def test_what_is_served_is_what_the_schema_says(scene: Scene) -> None:
    scene.applier(applied(REF))
    scene.inventories.seen(REF, seen(Status.FAILED))

    shown = await scene.shown()
    model = msgspec.convert(shown, Inventory, strict=True)

    assert model.status.problems[0].health == "Failed"
    assert set(shown["status"]) == {
        field.encode_name for field in msgspec.structs.fields(model.status)
    }


async def test_columns_and_fields_tell_the_state(scene: Scene) -> None:
    scene.applier(applied(REF, SECOND, suspended=True))
    scene.inventories.seen(REF, seen())
    scene.inventories.looked(SECOND, exists=False)

    shown = await scene.shown()

    assert [column.cell(shown) for column in columns.COLUMNS] == [
        "app",
        2,
        "1/2",
        1,
        "main@sha1:aaaaaaaa",
        "2026-01-01T00:00:00Z",
        "True",
        "GitRepository/repo",
        "1 missing",
    ]
    fields = {name: read(shown) for name, read in columns.FIELDS.items()}
    assert fields["spec.sourceRef.name"] == "repo"
    assert (fields["status.ready"], fields["status.drifted"]) == ("False", "1")


async def test_an_event_without_news_changes_nothing(scene: Scene) -> None:
    scene.applier(applied(REF))
    scene.inventories.seen(REF, seen())
    before = await scene.item()

    scene.inventories.seen(REF, seen(resource_version="99"))

    assert await scene.item() is before


async def test_appliers_may_go_while_others_are_served(scene: Scene) -> None:
    keys = [ObjectKey("shop", f"app{number}") for number in range(120)]
    for key in keys:
        scene.applier(replace(applied(REF), key=key), key)

    serving = asyncio.create_task(scene.inventories.flush())
    await asyncio.sleep(0)
    scene.applier(None, keys[-1])
    await serving

    assert len(scene.view) == 119


async def test_an_object_named_in_another_version_is_the_same_object(scene: Scene) -> None:
    newer = ObjectRef(replace(CONFIG_MAP, version="v2"), "shop", "conf")
    scene.applier(applied(REF))
    scene.inventories.seen(REF, seen())

    scene.applier(applied(newer))

    inventory = scene.inventories.get(KEY)
    assert inventory is not None
    assert [tracked.ref async for tracked, _ in scene.inventories.rows(inventory)] == [newer]
    assert (await scene.shown())["status"]["current"] == 1


async def test_others_get_their_turn_while_an_inventory_is_told(scene: Scene) -> None:
    refs = [ObjectRef(CONFIG_MAP, "shop", f"n{number:04}") for number in range(500)]
    scene.applier(applied(*refs))
    inventory = scene.inventories.get(KEY)
    assert inventory is not None
    told: list[ObjectRef] = []

    async def shrink() -> None:
        assert len(told) < 100, "it is not all told in one turn"
        scene.applier(applied(*refs[:200]))

    shrinking = asyncio.create_task(shrink())
    async for tracked, _ in scene.inventories.rows(inventory):
        told.append(tracked.ref)
    await shrinking

    assert told == refs[:200], "what leaves meanwhile is left out"


async def test_an_applier_that_moves_to_another_cluster_shows_nothing_here(scene: Scene) -> None:
    scene.applier(applied(REF))
    scene.inventories.seen(REF, seen())

    scene.applier(applied(REF, remote=True))
    status = (await scene.shown())["status"]
    scene.applier(applied(REF))

    assert (status["observed"], status["unobserved"]) == (0, 1)
    assert (await scene.shown())["status"]["current"] == 1


def test_a_kustomization_is_read_from_what_the_server_sends() -> None:
    raw: Json = {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": "shop", "uid": "u", "resourceVersion": "7"},
        "spec": {
            "sourceRef": {"kind": "GitRepository", "name": "repo"},
            "sourceRefs": [{"kind": "Bucket", "name": "b", "namespace": "x", "path": "vendor"}],
            "kubeConfig": {"secretRef": {"name": "remote"}},
            "interval": "1m",
        },
        "status": {
            "conditions": [
                {"type": "Reconciling", "status": "True", "reason": "R", "message": "m" * 1000}
            ],
            "lastAppliedRevision": "r1",
            "lastAttemptedRevision": "r2",
            "inventory": {"entries": [{"id": "shop_conf__ConfigMap", "v": "v1"}]},
        },
    }

    read = kustomization(msgspec.json.encode(raw))

    assert (read.key, read.revision, read.attempted) == (KEY, "r1", "r2")
    assert (read.remote, read.busy, read.refs) == (True, True, (REF,))
    assert [(source.kind, source.namespace, source.path) for source in read.sources] == [
        ("GitRepository", "shop", ""),
        ("Bucket", "x", "vendor"),
    ]
    assert len(read.conditions[0]["message"]) < 300


def test_an_unreadable_inventory_is_a_problem_and_no_failure() -> None:
    raw: Json = {
        "metadata": {"name": "app", "namespace": "shop"},
        "status": {"inventory": {"entries": [{"id": "nonsense", "v": "v1"}]}},
    }

    read = kustomization(msgspec.json.encode(raw))

    assert read.refs == ()
    assert "malformed inventory id" in read.problem


def test_few_labels_of_a_kustomization_are_kept() -> None:
    labels = {f"l{number:04}": "x" for number in range(5000)}
    raw: Json = {"metadata": {"name": "app", "namespace": "shop", "labels": labels}}

    read = kustomization(msgspec.json.encode(raw))

    assert list(read.labels) == [f"l{number:04}" for number in range(64)]
