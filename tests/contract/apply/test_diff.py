"""What an apply would change, told without changing it."""

from dataclasses import replace
from typing import Any

import pytest

from toolkit.apply import diff, ownership
from toolkit.objects import Json


@pytest.fixture
def compare(api: Any, options: Any) -> Any:
    async def run(*objects: Json, force: bool = False) -> Any:
        owned = [ownership.own(obj, options.owner) for obj in objects]
        return await diff.diff(api, owned, options=replace(options, force=force))

    return run


def _changes(found: Any) -> list[tuple[str, Any, Any]]:
    return [(change.path, change.before, change.after) for change in found.changes]


async def test_new_changed_and_same_objects_are_told_apart(
    apply: Any, make: Any, compare: Any, wire: Any
) -> None:
    await apply(make.deployment(), make.config_map())
    wire.sent.clear()

    deployment, same, new = await compare(
        make.deployment(image="nginx:2"), make.config_map(), make.account()
    )

    assert (deployment.action, same.action, new.action) == ("configured", "unchanged", "created")
    assert _changes(deployment) == [
        ("/spec/template/spec/containers/0/image", "nginx:1", "nginx:2")
    ]
    assert set(wire.sent) <= {"GET", "PATCH dry"}


async def test_the_values_of_a_secret_are_masked(apply: Any, make: Any, compare: Any) -> None:
    await apply(make.secret(changed="hunter2", kept="hunter3"))

    (found,) = await compare(make.secret(changed="hunter4", kept="hunter3"))

    assert _changes(found) == [("/data/changed", "*** (before)", "*** (after)")]


async def test_what_would_be_refused_or_recreated_is_said(
    apply: Any, make: Any, compare: Any
) -> None:
    await apply(make.deployment())
    other = make.deployment()
    other["spec"]["selector"] = {"matchLabels": {"app": "web", "a": "b"}}
    other["spec"]["template"]["metadata"]["labels"] = {"app": "web", "a": "b"}

    (refused,) = await compare(other)
    (recreated,) = await compare(other, force=True)

    assert (refused.action, recreated.action) == ("refused", "recreated")
    assert "field is immutable" in refused.problem
    assert ("/spec/selector/matchLabels/a", None, "b") in _changes(recreated)
