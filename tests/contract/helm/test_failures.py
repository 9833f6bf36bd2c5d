"""How actions fail: what is told, and that no release is left pending."""

import asyncio

import pytest

from tests.contract.helm.world import CONFIG_MAP, World, hook, statuses
from tests.tools.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCHEMA = '{"type":"object","properties":{"colour":{"type":"string"}}}'


async def test_values_that_the_schema_refuses_are_told(world: World) -> None:
    chart = world.chart()
    (chart / "values.schema.json").write_text(SCHEMA)

    error = await world.fails("install", chart, values={"colour": 7})

    assert error.code == "SchemaViolation"
    assert "/colour" in str(error)
    assert error.outcome.records == ()
    await world.run("install", chart, values={"colour": 7}, disableSchemaValidation=True)


async def test_template_that_fails_is_named(world: World) -> None:
    broken = CONFIG_MAP + '  size: {{ required "a size is needed" .Values.size }}\n'

    error = await world.fails("install", world.chart(templates__configmap_yaml=broken))

    assert error.code == "TemplateFailed"
    assert error.detail == {"file": "shop/templates/configmap.yaml", "line": 7}
    assert "a size is needed" in str(error)


async def test_change_of_what_cannot_change_fails_the_release(world: World) -> None:
    text = """\
apiVersion: v1
kind: Secret
metadata: {name: fixed}
immutable: true
stringData: {key: "{{ .Values.colour }}"}
"""
    await world.run("install", world.chart(templates__fixed_yaml=text))

    error = await world.fails(
        "upgrade", world.chart(templates__fixed_yaml=text), values={"colour": "blue"}
    )

    assert error.code == "Immutable"
    assert statuses(error.outcome) == [(2, "failed"), (1, "deployed")]
    assert statuses(await world.run("rollback", version=1))[0] == (3, "deployed")


async def test_late_action_leaves_a_failed_release(world: World) -> None:
    chart = world.chart(templates__a_yaml=hook("wait", "pre-install", kind="Pod"))

    error = await world.fails("install", chart, timeout=1)

    assert error.code == "Timeout"
    assert statuses(error.outcome) == [(1, "failed")]
    assert await world.history() == [(1, "failed")]


async def test_cancelled_action_leaves_a_failed_release(world: World) -> None:
    chart = world.chart(templates__a_yaml=hook("wait", "post-install", kind="Pod"))
    installing = asyncio.create_task(world.run("install", chart))
    await until(lambda: world.get("api/v1 pods/wait"))

    installing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await installing

    assert await world.history() == [(1, "failed")]
    assert statuses(await world.run("upgrade", world.chart()))[0] == (2, "deployed")


async def test_values_of_secrets_are_told_nobody(world: World) -> None:
    secret = (
        CONFIG_MAP + '  size: {{ fail (printf "no %s or %s" .Values.key (b64enc .Values.key)) }}\n'
    )

    error = await world.fails(
        "install",
        world.chart(templates__configmap_yaml=secret),
        values={"key": "hunter-22"},
        secrets=("hunter-22",),
    )

    assert "no *** or ***" in str(error)
    assert not any("hunter-22" in line for line in error.outcome.log)


async def test_records_do_not_tell_values_of_secrets(world: World) -> None:
    rejected = CONFIG_MAP.replace(
        "kind: ConfigMap", "kind: ConfigMap\nbinaryData: {{ .Values.key }}"
    )

    error = await world.fails(
        "install",
        world.chart(templates__configmap_yaml=rejected),
        values={"key": "hunter-22"},
        secrets=("hunter-22",),
    )

    described = error.outcome.records[0].info.description
    assert described.startswith('Release "app" failed:')
    assert "hunter-22" not in described + str(error) + "".join(error.outcome.log)
    stored = (await world.run("history")).records[0]
    assert stored.info.description == described
