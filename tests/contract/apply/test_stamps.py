"""What the API server's managedFields tell of a write, and what they do not.

``apiserver.inventories.drift`` rests on these facts, and so does the model that proves it
(``tests/fakes/managedfields.py``), which is asked the same here.
"""

from collections.abc import Mapping
from typing import Any, Final

from tests.fakes.managedfields import Simulated
from toolkit.apply import fields
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json, dig

CONFIG_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")
LONG_AGO: Final = "2020-01-01T00:00:00Z"
EARLIER, NOW = 1, 2

Owned = Mapping[str, tuple[frozenset[str], bool]]
"""Which keys each manager owns, and whether the last write has stamped its entry."""


class World:
    """A ConfigMap on the API server, and the same in the model."""

    def __init__(self, api: Client, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._model = Simulated()

    async def apply(self, manager: str, **data: str) -> Owned:
        await self._age()
        obj = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "conf", "namespace": self._namespace},
            "data": data,
        }
        live = (await self._api.apply(obj, manager=manager)).object
        self._model = self._model.apply(manager, _named(data), second=NOW)
        return self._agreed(live)

    async def patch(self, manager: str, **data: str | None) -> Owned:
        await self._age()
        live = await self._merge({"data": data}, manager)
        self._model = self._model.update(manager, _named(data), second=NOW)
        return self._agreed(live)

    async def _age(self) -> None:
        """Move all stamps into the past, so that a new one shows within the second."""
        if not self._model.values:
            return
        obj = await self._api.get(CONFIG_MAP, "conf", self._namespace)
        aged = [entry | {"time": LONG_AGO} for entry in fields.entries(obj)]
        # the server takes back a change of nothing but stamps
        note = {"aged": str(dig(obj, "metadata", "resourceVersion"))}
        await self._merge({"metadata": {"managedFields": aged, "annotations": note}}, "clerk")
        self._model = self._model.shifted(dict.fromkeys((None, EARLIER, NOW), EARLIER))

    async def _merge(self, body: Json, manager: str) -> Json:
        return await self._api.patch(
            CONFIG_MAP, "conf", self._namespace, body, strategy="merge", manager=manager
        )

    def _agreed(self, live: Json) -> Owned:
        """Return who owns what on the server; the model says the same."""
        found, modelled = _owned(live, LONG_AGO), _owned(self._model.json(), "2026-01-01T00:00:01Z")
        assert found == modelled
        assert live.get("data", {}) == self._model.json()["data"]
        return found


def _named(data: Mapping[str, Any]) -> dict[str, Any]:
    return {f"data/{key}": value for key, value in data.items()}


def _owned(obj: Json, aged: str) -> Owned:
    trees = ((entry, dig(entry, "fieldsV1", "f:data")) for entry in fields.entries(obj))
    return {
        entry["manager"]: (frozenset(key[2:] for key in tree if key != "."), entry["time"] != aged)
        for entry, tree in trees
        if tree
    }


async def test_an_apply_is_stamped_when_it_changes_a_value(api: Client, namespace: str) -> None:
    world = World(api, namespace)
    both = frozenset("ab")

    created = await world.apply("ours", a="1", b="1")
    changed = await world.apply("ours", a="1", b="2")
    same = await world.apply("ours", a="1", b="2")
    dropped = await world.apply("ours", a="1")

    assert (created, changed) == ({"ours": (both, True)}, {"ours": (both, True)})
    assert (same, dropped) == ({"ours": (both, False)}, {"ours": (frozenset("a"), True)})


async def test_an_apply_that_changes_only_owners_keeps_its_stamp(
    api: Client, namespace: str
) -> None:
    world = World(api, namespace)
    await world.apply("ours", a="1")
    await world.patch("theirs", b="1")

    gained = await world.apply("ours", a="1", b="1")
    let_go = await world.apply("ours", a="1")

    assert gained["ours"] == (frozenset("ab"), False)
    assert (let_go["ours"], let_go["theirs"]) == ((frozenset("a"), False), (frozenset("b"), False))


async def test_others_take_fields_and_leave_the_stamp(api: Client, namespace: str) -> None:
    world = World(api, namespace)
    await world.apply("ours", a="1", b="1")

    taken = await world.patch("theirs", b="2")
    undone = await world.patch("theirs", b="1")
    regained = await world.apply("ours", a="1", b="1")
    removed = await world.patch("theirs", a=None, b=None)

    assert taken == {"ours": (frozenset("a"), False), "theirs": (frozenset("b"), True)}
    assert undone == taken
    assert regained == {"ours": (frozenset("ab"), False), "theirs": (frozenset("b"), False)}
    assert removed == {}


async def test_who_removes_a_field_leaves_no_trace(api: Client, namespace: str) -> None:
    world = World(api, namespace)
    await world.apply("ours", a="1", b="1")

    removed = await world.patch("theirs", b=None)
    given_up = await world.apply("ours", a="1")

    assert removed == given_up == {"ours": (frozenset("a"), False)}


async def test_what_two_own_is_taken_from_both(api: Client, namespace: str) -> None:
    world = World(api, namespace)
    await world.apply("ours", a="1", b="1")
    await world.apply("theirs", b="1", c="1")

    taken = await world.patch("another", b="2")

    assert taken == {
        "ours": (frozenset("a"), False),
        "theirs": (frozenset("c"), False),
        "another": (frozenset("b"), True),
    }
