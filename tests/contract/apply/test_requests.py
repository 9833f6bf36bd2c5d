"""How many requests an apply costs, and what it says that it did."""

import asyncio
import time
from dataclasses import replace
from typing import Any, Final

import pytest

from toolkit.apply import fields
from toolkit.apply.changes import Known
from toolkit.apply.check import Find
from toolkit.apply.clock import ServerClock
from toolkit.apply.options import MANAGER
from toolkit.apply.ownership import KUSTOMIZE_GROUP
from toolkit.apply.projection import Projector
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json, dig

CONFIG_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")


class Conf:
    """The ConfigMap on the server: who owns what of it, and how it looks to a watch."""

    def __init__(self, api: Client, namespace: str) -> None:
        self._api = api
        self._key = ("conf", namespace)

    async def seen(self) -> Find:
        """See it as a watch would, and show that from then on."""
        projector = Projector(gvk=CONFIG_MAP, manager=MANAGER, group=KUSTOMIZE_GROUP)
        live = projector.project(await self._api.get(CONFIG_MAP, *self._key))
        return lambda ref: live if ref.gvk == CONFIG_MAP else None

    async def ours(self) -> set[str]:
        entry = fields.applied_entry(await self._api.get(CONFIG_MAP, *self._key), MANAGER) or {}
        return {key[2:] for key in dig(entry, "fieldsV1", "f:data", default={})} - {""}

    async def edit(self, **data: str) -> None:
        await self._merge({"data": data})

    async def age(self) -> None:
        """Move all stamps into the past."""
        obj = await self._api.get(CONFIG_MAP, *self._key)
        aged = [entry | {"time": "2020-01-01T00:00:00Z"} for entry in fields.entries(obj)]
        # the server takes back a change of nothing but stamps
        await self._merge({"metadata": {"managedFields": aged, "annotations": {"aged": "yes"}}})

    async def _merge(self, body: Json) -> None:
        # what kubectl itself owns would be taken over in any case
        await self._api.patch(CONFIG_MAP, *self._key, body, strategy="merge", manager="somebody")


@pytest.fixture
def conf(api: Client, namespace: str) -> Conf:
    return Conf(api, namespace)


def _four(make: Any) -> list[Json]:
    return [make.account(), make.config_map(), make.service(), make.deployment()]


def _actions(changes: Any) -> set[str]:
    return {entry.action for entry in changes.entries}


async def test_four_new_objects_cost_eight_requests(apply: Any, make: Any, wire: Any) -> None:
    changes = await apply(*_four(make))

    assert sorted(wire.sent) == ["PATCH"] * 4 + ["PATCH dry"] * 4
    assert _actions(changes) == {"created"}
    assert [entry.ref.gvk.kind for entry in changes.entries] == [
        "ServiceAccount",
        "ConfigMap",
        "Service",
        "Deployment",
    ]


async def test_known_objects_cost_nothing(apply: Any, make: Any, wire: Any) -> None:
    first = await apply(*_four(make))
    wire.sent.clear()

    changes = await apply(*_four(make), known=first.known)

    assert wire.sent == []
    assert _actions(changes) == {"unchanged"}
    assert changes.known == first.known


async def test_config_map_with_nulls_is_applied_once(apply: Any, make: Any) -> None:
    obj = make("v1", "ConfigMap", "nulls", data={"empty": None, "full": "x"})

    assert _actions(await apply(obj)) == {"created"}
    assert _actions(await apply(obj)) == {"unchanged"}


async def test_secret_with_nulls_is_applied_and_then_costs_nothing(
    apply: Any, make: Any, wire: Any, api: Any
) -> None:
    values = {"data": {"empty": None, "full": "eA=="}, "stringData": {"text": None}}
    secret = make("v1", "Secret", "nulls", **values)
    first = await apply(secret)
    wire.sent.clear()

    changes = await apply(secret, known=first.known)

    assert wire.sent == []
    assert _actions(changes) == {"unchanged"}
    live = await api.get(changes.refs[0].gvk, "nulls", make.namespace)
    assert live["data"] == {"empty": "", "full": "eA==", "text": ""}
    assert _actions(await apply(secret)) == {"unchanged"}


async def test_only_the_changed_object_is_asked_about(apply: Any, make: Any, wire: Any) -> None:
    first = await apply(*_four(make))
    wire.sent.clear()
    objects = [*_four(make)[:3], make.deployment(image="nginx:2")]

    changes = await apply(*objects, known=first.known)

    assert wire.sent == ["PATCH dry", "PATCH"]
    assert changes.lines == (f"Deployment/{make.namespace}/web configured",)


async def test_a_recheck_of_untouched_objects_writes_nothing(
    apply: Any, make: Any, wire: Any, options: Any, conf: Conf
) -> None:
    quiet = _four(make)[1:2]  # nobody reports status on it
    first = await apply(*quiet)
    find = await conf.seen()
    wire.sent.clear()

    changes = await apply(
        *quiet, known=first.known, find=find, options=replace(options, recheck=True)
    )

    assert wire.sent == ["PATCH dry"]
    assert _actions(changes) == {"unchanged"}


async def test_a_recheck_heals_what_the_caller_believed_intact(
    apply: Any, make: Any, cluster: Any, options: Any
) -> None:
    first = await apply(make.config_map(key="ours"))
    cluster("patch", "configmap", "conf", "-p", '{"data":{"key":"theirs"}}')

    changes = await apply(
        make.config_map(key="ours"), known=first.known, options=replace(options, recheck=True)
    )

    value = cluster("get", "configmap", "conf", "-o", "jsonpath={.data.key}")
    assert value == "ours"
    assert _actions(changes) == {"configured"}


async def test_unknown_objects_that_did_not_change_are_called_unchanged(
    apply: Any, make: Any, wire: Any
) -> None:
    await apply(*_four(make)[:3])
    wire.sent.clear()

    changes = await apply(*_four(make)[:3])

    assert sorted(wire.sent) == ["PATCH"] * 3 + ["PATCH dry"] * 3
    assert _actions(changes) == {"unchanged"}


@pytest.fixture
async def later(api: Client) -> ServerClock:
    """Give a clock by which two minutes have passed since the server told its time."""
    skew = 0.0
    clock = ServerClock(monotonic=lambda: time.monotonic() + skew)
    await clock.learn(api)
    skew = 120.0
    return clock


async def test_the_servers_clock_spares_the_write_of_old_objects_that_are_seen(
    apply: Any, make: Any, wire: Any, conf: Conf, later: ServerClock
) -> None:
    await apply(make.config_map())
    find = await conf.seen()
    wire.sent.clear()

    seen = await apply(make.config_map(), clock=later, find=find)
    asked = list(wire.sent)
    unseen = await apply(make.config_map(), clock=later)

    assert asked == ["PATCH dry"]
    assert wire.sent == ["PATCH dry", "PATCH dry", "PATCH"]
    assert _actions(seen) == _actions(unseen) == {"unchanged"}


async def test_a_field_that_was_changed_and_changed_back_is_ours_again(
    apply: Any, make: Any, conf: Conf, later: ServerClock
) -> None:
    await apply(make.config_map(a="1", b="1"))
    await conf.edit(a="2")
    await conf.edit(a="1")
    lost = await conf.ours()

    await apply(make.config_map(a="1", b="1"), clock=later, find=await conf.seen())

    assert (lost, await conf.ours()) == ({"b"}, {"a", "b"})


async def test_what_a_late_watch_shows_proves_nothing(
    apply: Any, make: Any, conf: Conf, later: ServerClock
) -> None:
    await apply(make.config_map(a="1", b="1"))
    before = await conf.seen()
    await conf.edit(a="2")
    await conf.edit(a="1")

    await apply(make.config_map(a="1", b="1"), clock=later, find=before)

    assert await conf.ours() == {"a", "b"}


async def test_a_field_that_has_the_value_already_becomes_ours(
    apply: Any, make: Any, conf: Conf, later: ServerClock
) -> None:
    await apply(make.config_map(a="1"))
    await conf.edit(b="1")

    await apply(make.config_map(a="1", b="1"), clock=later, find=await conf.seen())

    assert await conf.ours() == {"a", "b"}


async def test_a_recheck_takes_back_what_was_applied_under_our_own_name(
    apply: Any, make: Any, conf: Conf, options: Any
) -> None:
    first = await apply(make.config_map(key="ours"))
    await apply(make.config_map(key="theirs"))
    await conf.age()
    find = await conf.seen()

    changes = await apply(
        make.config_map(key="ours"),
        known={identity: _at_present(known, find) for identity, known in first.known.items()},
        find=find,
        options=replace(options, recheck=True),
    )

    assert _actions(changes) == {"configured"}


def _at_present(known: Known, find: Find) -> Known:
    """Return what a watch tells of an object whose entry is as we left it."""
    live = find(known.ref)
    assert live is not None
    assert live.entry == known.entry_digest
    return replace(known, resource_version=live.resource_version)


async def test_a_changed_object_is_written_whatever_the_clock_says_of_its_old_stamp(
    apply: Any, make: Any, cluster: Any
) -> None:
    clock = ServerClock()
    await apply(make.config_map(key="one"), clock=clock)
    await asyncio.sleep(0)

    changes = await apply(make.config_map(key="two"), clock=clock)

    value = cluster("get", "configmap", "conf", "-o", "jsonpath={.data.key}")
    assert value == "two"
    assert _actions(changes) == {"configured"}
