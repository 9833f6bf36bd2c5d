"""How many requests an apply costs, and what it says that it did."""

import asyncio
import time
from dataclasses import replace
from typing import Any

from toolkit.apply.clock import ServerClock
from toolkit.objects import Json


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


async def test_only_the_changed_object_is_asked_about(apply: Any, make: Any, wire: Any) -> None:
    first = await apply(*_four(make))
    wire.sent.clear()
    objects = [*_four(make)[:3], make.deployment(image="nginx:2")]

    changes = await apply(*objects, known=first.known)

    assert wire.sent == ["PATCH dry", "PATCH"]
    assert changes.lines == (f"Deployment/{make.namespace}/web configured",)


async def test_a_recheck_of_untouched_objects_writes_nothing(
    apply: Any, make: Any, wire: Any, options: Any
) -> None:
    quiet = _four(make)[:3]  # nobody reports status on these
    first = await apply(*quiet)
    wire.sent.clear()

    changes = await apply(*quiet, known=first.known, options=replace(options, recheck=True))

    assert wire.sent == ["PATCH dry"] * 3
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


async def test_the_servers_clock_spares_the_write_of_old_objects(
    apply: Any, make: Any, wire: Any
) -> None:
    await apply(make.config_map())
    # the clock believes that two minutes have passed since the server told its time
    skew = [0.0]
    clock = ServerClock(monotonic=lambda: time.monotonic() + skew[0])
    await apply(make.config_map(), clock=clock)
    wire.sent.clear()

    skew[0] = 120.0
    old = await apply(make.config_map(), clock=clock)
    asked = list(wire.sent)

    assert asked == ["PATCH dry"]
    assert _actions(old) == {"unchanged"}


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
