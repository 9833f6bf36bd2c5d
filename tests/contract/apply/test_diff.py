"""What an apply would change, told without changing it."""

from dataclasses import replace
from typing import Any

import pytest

from toolkit.apply import diff, ownership
from toolkit.objects import Json, ref_of


@pytest.fixture
def compare(api: Any, options: Any) -> Any:
    async def run(*objects: Json, force: bool = False, inventory: Any = ()) -> Any:
        owned = [ownership.own(obj, options.owner) for obj in objects]
        chosen = replace(options, force=force)
        return await diff.diff(api, owned, options=chosen, inventory=inventory)

    return run


def _lines(found: Any) -> list[str]:
    return [str(one) for one in found.differences]


async def test_new_changed_and_same_objects_are_told_apart(
    apply: Any, make: Any, compare: Any, wire: Any
) -> None:
    await apply(make.deployment(), make.config_map())
    wire.sent.clear()

    deployment, new = await compare(
        make.deployment(image="nginx:2"), make.config_map(), make.account()
    )

    assert (deployment.fate, new.fate) == ("drifted", "created")
    assert _lines(deployment) == [
        '~ spec.template.spec.containers[name=web].image: "nginx:1" → "nginx:2"'
    ]
    assert set(wire.sent) <= {"GET", "PATCH dry"}


async def test_the_values_of_a_secret_are_masked(apply: Any, make: Any, compare: Any) -> None:
    await apply(make.secret(changed="hunter2", kept="hunter3"))

    (found,) = await compare(make.secret(changed="hunter4", kept="hunter3"))

    assert _lines(found) == ["~ data.changed: *** (before) → *** (after)"]


async def test_what_would_be_refused_or_recreated_is_said(
    apply: Any, make: Any, compare: Any
) -> None:
    await apply(make.deployment())
    other = make.deployment()
    other["spec"]["selector"] = {"matchLabels": {"app": "web", "a": "b"}}
    other["spec"]["template"]["metadata"]["labels"] = {"app": "web", "a": "b"}

    (refused,) = await compare(other)
    (recreated,) = await compare(other, force=True)

    assert (refused.fate, recreated.fate) == ("refused", "recreated")
    assert "field is immutable" in refused.failure.message
    assert '+ spec.selector.matchLabels.a: "b"' in _lines(recreated)


async def test_what_left_the_set_would_be_deleted_if_it_is_ours(
    apply: Any, api: Any, make: Any, compare: Any
) -> None:
    kept = make.marked(make.config_map("kept"), prune="Disabled")
    stray = make.config_map("stray")
    await apply(make.config_map("stale"), kept)
    await api.apply(stray, manager="somebody")
    listed = [ref_of(obj) for obj in (make.config_map("stale"), kept, stray, make.config_map("no"))]

    found = await compare(inventory=listed)

    assert [(one.ref.name, one.fate) for one in found] == [("stale", "deleted")]
