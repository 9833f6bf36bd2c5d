"""What the API server asks, and what users see of the answers."""

import asyncio
import copy
import itertools
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import CONFIG_MAPS, LABEL, Gate, Recorder, Review, opened
from tests.tools import rights
from toolkit.kube.errors import ApiError, InvalidError
from toolkit.objects import GroupVersionKind
from webhooks.plugin import Answer, Cause, DeniedError, Row, Rule
from webhooks.request import Request
from webhooks.services import Services

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SCALE = Rule(
    groups=("apps",), versions=("v1",), resources=("deployments/scale",), operations=("UPDATE",)
)
HASTY = "tests.penstock.dev/hasty"
"""Labels the namespaces that a plugin of little patience is asked about."""


@dataclass
class Stage:
    """A plugin that does in each namespace what the test there says, and admits elsewhere."""

    played: dict[str, Recorder] = field(default_factory=dict)
    probed: bool = False

    async def review(self, request: Request) -> Answer:
        self.probed = self.probed or request.name == "probe"
        if request.namespace in self.played:
            return await self.played[request.namespace].review(request)
        return Answer()

    def make(self, _: Services) -> "Stage":
        return self


@dataclass(frozen=True)
class House:
    """The gate in front of a namespace, and what its plugins do there."""

    gate: Gate
    stages: dict[str, Stage]

    def plays(self, stage: str, behave: Review) -> Recorder:
        """Have a plugin do this in the namespace."""
        recorder = self.stages[stage].played[self.gate.namespace] = Recorder(behave)
        return recorder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(control_plane: ControlPlane) -> AsyncIterator[House]:
    """Run one process with plugins that tests direct."""
    async with opened(control_plane) as gate:
        stages = {name: Stage() for name in ("painter", "colours", "second", "hasty")}
        rows = [
            Row(
                name=name,
                make=stage.make,
                rules=(*CONFIG_MAPS, SCALE),
                mutating=name == "painter",
                timeout=3 if name == "hasty" else 10,
                namespace_selector={
                    "matchLabels": {LABEL: gate.installed}
                    | ({HASTY: "true"} if name == "hasty" else {})
                },
                everywhere=True,
            )
            for name, stage in stages.items()
        ]
        await gate.start(*rows)
        await gate.asked(stages["painter"], stages["colours"])
        yield House(gate, stages)


@pytest_asyncio.fixture(loop_scope="module")
async def house(shared: House) -> House:
    """Give a test a namespace of its own."""
    return House(await shared.gate.beside(), shared.stages)


async def yes(_: Request) -> Answer:
    return Answer()


async def refuse(request: Request) -> Answer:
    raise DeniedError(f"{request.ref}: spec.colour 'red' is not allowed; use 'blue'")


async def test_every_kind_of_write_is_reviewed(house: House) -> None:
    gate, seen = house.gate, house.plays("colours", yes)

    await gate.admin.create(gate.config_map("one", a="1"))
    await gate.write(gate.config_map("one", a="2"))
    await gate.admin.patch(
        CONFIG_MAP, "one", gate.namespace, {"data": {"b": "3"}}, strategy="merge"
    )
    await gate.write(gate.config_map("two"), dry_run=True)
    await gate.admin.delete(CONFIG_MAP, "one", gate.namespace)

    # An API server whose cache is behind asks again about the same write.
    told = [
        (each.operation, each.name, (each.object or {}).get("data"), each.dry_run)
        for each in seen.asked
    ]
    assert [row for row, _ in itertools.groupby(told)] == [
        ("CREATE", "one", {"a": "1"}, False),
        ("UPDATE", "one", {"a": "2"}, False),
        ("UPDATE", "one", {"a": "2", "b": "3"}, False),
        ("CREATE", "two", None, True),
        ("DELETE", "one", None, False),
    ]
    created, updated, *_, deleted = seen.asked
    assert created.object is not None
    assert created.old is None
    assert created.user.name
    assert "system:masters" in created.user.groups
    assert updated.old is not None
    assert updated.old["data"] == {"a": "1"}
    assert deleted.object is None
    assert deleted.old is not None


async def test_a_change_reaches_the_stored_object(house: House) -> None:
    async def paint(request: Request) -> Answer:
        changed = copy.deepcopy(request.object) or {}
        changed["metadata"]["annotations"] = {"example.com/colour": "blue"}
        changed["data"].pop("drop", None)
        return Answer(object=changed)

    gate = house.gate
    house.plays("painter", paint)

    stored = await gate.write(gate.config_map("house", drop="1", keep="2"))

    assert stored["metadata"]["annotations"] == {"example.com/colour": "blue"}
    assert stored["data"] == {"keep": "2"}


async def test_a_denial_is_what_kubectl_prints(house: House) -> None:
    gate = house.gate
    house.plays("colours", refuse)

    for flags in ([], ["--server-side"], ["--dry-run=server"]):
        said = await gate.refused(gate.config_map("house"), flags=flags)

        assert "colours.admission.penstock.dev" in said
        assert "denied the request: ConfigMap/" in said
        assert "spec.colour 'red' is not allowed; use 'blue'" in said


async def test_causes_of_an_invalid_object_are_printed(house: House) -> None:
    async def invalid(request: Request) -> Answer:
        cause = Cause(reason="FieldValueInvalid", field="data.a", message="'x' is not a number")
        raise DeniedError(f"{request.ref} is not valid", code=422, causes=(cause,))

    gate = house.gate
    house.plays("colours", invalid)

    said = await gate.refused(gate.config_map("house"))
    with pytest.raises(InvalidError) as caught:
        await gate.write(gate.config_map("house"))

    # Who reads the answer as JSON, and kubectl, know by the details which object was refused.
    assert "The ConfigMap \"house\" is invalid: data.a: 'x' is not a number" in said
    assert caught.value.causes[0].field == "data.a"


async def test_an_invalid_object_without_causes_is_explained_too(house: House) -> None:
    async def invalid(_: Request) -> Answer:
        raise DeniedError("the moon is full", code=422)

    gate = house.gate
    house.plays("colours", invalid)

    assert "the moon is full" in await gate.refused(gate.config_map("house"))


async def test_warnings_are_printed_and_audit_notes_are_taken(house: House) -> None:
    async def warn(_: Request) -> Answer:
        return Answer(warnings=("this colour fades",), audit={"colour": "red"})

    gate = house.gate
    house.plays("colours", warn)

    said = await gate.kubectl.run("create", "configmap", "house")

    assert "Warning: this colour fades" in said


async def test_our_words_come_before_the_deadline_of_the_api_server(house: House) -> None:
    async def dawdle(_: Request) -> Answer:
        await asyncio.sleep(60)
        return Answer()

    gate = await house.gate.beside(**{HASTY: "true"})
    House(gate, house.stages).plays("hasty", dawdle)

    said = await gate.refused(gate.config_map("house"))

    assert "hasty came to no decision in time; try again" in said
    assert "deadline exceeded" not in said


async def test_a_bug_denies_and_tells_nothing_of_the_object(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    async def bug(request: Request) -> Answer:
        raise KeyError((request.object or {})["data"]["password"])

    gate = house.gate
    house.plays("colours", bug)

    with pytest.raises(ApiError) as caught:
        await gate.write(gate.config_map("house", password="hunter2"))

    assert caught.value.status == 500
    assert "colours failed" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert any(record.message == "plugin failed" for record in caplog.records)
    assert "hunter2" not in str([record.__dict__ for record in caplog.records])


async def test_a_big_object_is_reviewed(house: House) -> None:
    gate, seen = house.gate, house.plays("colours", yes)

    await gate.write(gate.config_map("house", big="x" * 1_000_000))
    await gate.write(gate.config_map("house", big="y" * 1_000_000))

    assert len(seen.asked) == 2


async def test_subresources_are_reviewed_when_a_rule_names_them(house: House) -> None:
    gate, scaled = house.gate, house.plays("colours", refuse)
    await gate.kubectl.run("create", "deployment", "web", "--image=web", "--replicas=0")

    said = await gate.kubectl.refused("scale", "deployment", "web", "--replicas=1")

    assert "denied the request" in said
    assert [each.subresource for each in scaled.asked] == ["scale"]
    assert scaled.asked[0].gvk == GroupVersionKind("autoscaling", "v1", "Scale")


async def test_the_user_is_who_was_impersonated(house: House) -> None:
    gate, seen = house.gate, house.plays("colours", yes)
    await gate.kubectl.run("create", "rolebinding", "writer", "--clusterrole=edit", "--user=alice")
    edit = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}
    await rights.noticed(gate.admin, "alice", edit, namespace=gate.namespace)

    view = gate.admin.impersonating("alice", extra={"provenance.penstock.dev/source": "git"})
    await view.apply(gate.config_map("house"), manager="test")

    (asked,) = seen.asked
    assert asked.user.name == "alice"
    assert dict(asked.user.extra) == {"provenance.penstock.dev/source": ("git",)}


async def test_connections_that_nobody_uses_keep_no_api_server_out(
    house: House,
) -> None:
    """More of them than may be open, before and while it asks."""
    gate = house.gate

    async def stranger(*, tls: bool) -> asyncio.StreamWriter:
        way = ssl._create_unverified_context() if tls else None  # noqa: S323 - it proves nothing
        _, writer = await asyncio.open_connection("127.0.0.1", gate.port, ssl=way)
        return writer

    for batch in range(3):
        strangers = [await stranger(tls=False) for _ in range(300)]
        strangers += [await stranger(tls=True) for _ in range(30)]
        assert "created" in await gate.apply(gate.config_map(f"house-{batch}"))
        for each in strangers:
            each.close()


async def test_plugins_do_not_hold_each_other_up(house: House) -> None:
    release = asyncio.Event()

    async def wait(_: Request) -> Answer:
        await release.wait()
        return Answer()

    gate, slow, quick = house.gate, house.plays("colours", wait), house.plays("second", yes)

    writes = [asyncio.create_task(gate.write(gate.config_map(f"m{n}"))) for n in range(8)]

    async def both() -> bool:
        return len(slow.asked) == len(quick.asked) == 8

    await gate.until(both)
    release.set()
    assert all(await asyncio.gather(*writes))
