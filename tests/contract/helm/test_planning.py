"""What an install or an upgrade would make: rendered as Helm's dry-run does, and never written."""

import pytest

from tests.contract.helm.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

WHICH = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  colour: {{ .Values.colour | quote }}
  which: "{{ .Release.IsUpgrade }} {{ .Release.Revision }}"
"""
CUSTOM = "apiVersion: example.org/v1\nkind: Unheard\nmetadata: {name: odd}\n"


async def test_upgrade_is_rendered_as_one_and_not_made(world: World) -> None:
    chart = world.chart(templates__configmap_yaml=WHICH)
    await world.run("install", chart, values={"colour": "blue"})

    rendered = await world.run("render", chart, upgrade=True, reuseValues=True)

    (config_map,) = rendered.objects
    assert config_map["data"] == {"colour": "blue", "which": "true 2"}
    assert await world.history() == [(1, "deployed")]
    found = world.config_map()
    assert found
    assert found["data"]["which"] == "false 1"


async def test_kind_that_is_not_served_can_be_rendered(world: World) -> None:
    rendered = await world.run("render", world.chart(templates__odd_yaml=CUSTOM))

    assert {each["kind"] for each in rendered.objects} == {"ConfigMap", "Unheard"}
    assert (await world.fails("install", world.chart(templates__odd_yaml=CUSTOM))).code == (
        "CRDMissing"
    )


async def test_object_of_another_release_is_no_part_of_a_plan(world: World) -> None:
    world.make("api/v1 configmaps", {"metadata": {"name": "app"}})

    failure = await world.fails("render", world.chart())

    assert "invalid ownership metadata" in str(failure)
    assert (await world.run("render", world.chart(), takeOwnership=True)).objects


async def test_one_record_of_a_history_can_be_read(world: World) -> None:
    await world.run("install", world.chart(), values={"colour": "blue"})
    await world.run("upgrade", world.chart(), values={"colour": "green"})

    first = await world.run("history", version=1)

    assert [each.version for each in first.records] == [1]
    assert [each["data"] for each in first.objects] == [{"colour": "blue"}]
