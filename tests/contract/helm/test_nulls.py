"""A null in the values of a chart removes the default of its dependency."""

import json
from typing import Any

import pytest

from tests.contract.helm.world import World
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHOWN = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: %s}
data:
  values: {{ omit .Values "global" "grand" | toJson | quote }}
  global: {{ .Values.global | toJson | quote }}
"""
DEFAULTS: Json = {"limits": {"cpu": "200m", "memory": "200Mi"}, "replicas": 1}
LEFT: Json = {"limits": {"memory": "200Mi"}}
NULLS: Json = {"limits": {"cpu": None}, "replicas": None}


def chart(world: World, parent: Json, *, depends: str = "", **more: str) -> Any:
    """Write a chart with a vendored dependency, and one of that."""
    return world.chart(
        Chart_yaml=f"apiVersion: v2\nname: shop\nversion: 1.0.0\n{depends}",
        values_yaml=json.dumps({"colour": "red", **parent}),
        charts__sub__Chart_yaml="apiVersion: v2\nname: sub\nversion: 1.0.0\n",
        charts__sub__templates__sub_yaml=SHOWN % "{{ .Chart.Name }}",
        charts__sub__values_yaml=json.dumps(DEFAULTS | {"global": {"a": 1, "b": {"c": 2, "d": 3}}}),
        charts__sub__charts__grand__Chart_yaml="apiVersion: v2\nname: grand\nversion: 1.0.0\n",
        charts__sub__charts__grand__templates__grand_yaml=SHOWN % "{{ .Chart.Name }}",
        charts__sub__charts__grand__values_yaml=json.dumps(DEFAULTS),
        **more,
    )


def shown(world: World, name: str, key: str = "values") -> Json:
    found = world.config_map(name)
    assert found is not None
    values: Json = json.loads(found["data"][key])
    return values


@pytest.mark.parametrize("given", [{}, {"sub": {"other": 1}}, {"colour": "blue"}])
@pytest.mark.parametrize(
    "depends", ["", "dependencies: [{name: sub, version: 1.0.0, repository: ''}]\n"]
)
async def test_null_removes_a_default_of_a_dependency(
    world: World, given: Json, depends: str
) -> None:
    made = await world.run("install", chart(world, {"sub": NULLS}, depends=depends), values=given)

    assert shown(world, "sub") == LEFT | given.get("sub", {})
    assert made.records[0].values == given


async def test_null_removes_a_default_of_the_dependency_of_a_dependency(world: World) -> None:
    await world.run("install", chart(world, {"sub": {"grand": NULLS}}))
    above = shown(world, "grand")
    await world.run("upgrade", chart(world, {}))

    assert above == LEFT
    assert shown(world, "grand") == DEFAULTS


async def test_null_concerns_the_alias_that_it_names(world: World) -> None:
    both = "".join(f"  - {{name: sub, version: 1.0.0, alias: {name}}}\n" for name in ("one", "two"))

    await world.run("install", chart(world, {"one": NULLS}, depends=f"dependencies:\n{both}"))

    assert shown(world, "one") == LEFT
    assert shown(world, "two") == DEFAULTS


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"b": {"d": 3}}),
        ({"global": {"a": 5, "b": {"c": 6}}}, {"a": 5, "b": {"c": 6, "d": 3}}),
    ],
)
async def test_null_among_the_globals_removes_a_default_of_a_dependency(
    world: World, given: Json, expected: Json
) -> None:
    made = await world.run(
        "install", chart(world, {"global": {"a": None, "b": {"c": None}}}), values=given
    )

    assert shown(world, "sub", "global") == expected
    assert made.records[0].values == given


async def test_values_win_over_nulls(world: World) -> None:
    await world.run("install", chart(world, {"sub": NULLS}), values={"sub": {"replicas": 3}})

    assert shown(world, "sub") == LEFT | {"replicas": 3}


async def test_disabled_dependency_stays_out_of_the_values(world: World) -> None:
    top = (SHOWN % "top").replace('"global" "grand"', '"global"')
    depends = "dependencies: [{name: sub, version: 1.0.0, condition: wanted}]\n"
    made = chart(world, {"wanted": False, "sub": NULLS}, depends=depends, templates__top_yaml=top)

    await world.run("install", made)

    assert shown(world, "top") == {"colour": "red", "wanted": False, "sub": {"limits": {}}}
