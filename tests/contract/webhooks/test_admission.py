"""What the API server asks, and what users see of the answers."""

import asyncio
import copy
import ssl

import pytest

from tests.contract.webhooks.conftest import Gate, yes
from tests.tools import rights
from toolkit.kube.errors import ApiError, InvalidError
from toolkit.objects import GroupVersionKind
from webhooks.plugin import Answer, Cause, DeniedError, Rule
from webhooks.request import Request

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


async def refuse(request: Request) -> Answer:
    raise DeniedError(f"{request.ref}: spec.colour 'red' is not allowed; use 'blue'")


async def test_every_kind_of_write_is_reviewed(gate: Gate) -> None:
    row, seen = gate.row("all")
    await gate.start(row)
    await gate.asked(seen)

    await gate.admin.create(gate.config_map("one", a="1"))
    await gate.write(gate.config_map("one", a="2"))
    await gate.admin.patch(
        CONFIG_MAP, "one", gate.namespace, {"data": {"b": "3"}}, strategy="merge"
    )
    await gate.write(gate.config_map("two"), dry_run=True)
    await gate.admin.delete(CONFIG_MAP, "one", gate.namespace)

    told = [(each.operation, each.name, each.dry_run) for each in seen.asked]
    assert told == [
        ("CREATE", "one", False),
        ("UPDATE", "one", False),
        ("UPDATE", "one", False),
        ("CREATE", "two", True),
        ("DELETE", "one", False),
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


async def test_a_change_reaches_the_stored_object(gate: Gate) -> None:
    async def paint(request: Request) -> Answer:
        changed = copy.deepcopy(request.object) or {}
        changed["metadata"]["annotations"] = {"example.com/colour": "blue"}
        changed["data"].pop("drop", None)
        return Answer(object=changed)

    await gate.serve("painter", paint, mutating=True)

    stored = await gate.write(gate.config_map("house", drop="1", keep="2"))

    assert stored["metadata"]["annotations"] == {"example.com/colour": "blue"}
    assert stored["data"] == {"keep": "2"}


async def test_a_denial_is_what_kubectl_prints(gate: Gate) -> None:
    await gate.serve("colours", refuse)

    for flags in ([], ["--server-side"], ["--dry-run=server"]):
        said = await gate.apply(gate.config_map("house"), flags=flags)

        assert "colours.admission.penstock.dev" in said
        assert "denied the request: ConfigMap/" in said
        assert "spec.colour 'red' is not allowed; use 'blue'" in said


async def test_causes_of_an_invalid_object_are_printed(gate: Gate) -> None:
    async def invalid(request: Request) -> Answer:
        cause = Cause(reason="FieldValueInvalid", field="data.a", message="'x' is no number")
        raise DeniedError(f"{request.ref} is not valid", code=422, causes=(cause,))

    await gate.serve("numbers", invalid)

    said = await gate.apply(gate.config_map("house"))
    with pytest.raises(InvalidError) as caught:
        await gate.write(gate.config_map("house"))

    # Who reads the answer as JSON, and kubectl, know by the details which object was refused.
    assert "The ConfigMap \"house\" is invalid: data.a: 'x' is no number" in said
    assert caught.value.causes[0].field == "data.a"


async def test_an_invalid_object_without_causes_is_explained_too(gate: Gate) -> None:
    async def invalid(_: Request) -> Answer:
        raise DeniedError("the moon is full", code=422)

    await gate.serve("moon", invalid)

    assert "the moon is full" in await gate.apply(gate.config_map("house"))


async def test_warnings_are_printed_and_audit_notes_are_taken(gate: Gate) -> None:
    async def warn(_: Request) -> Answer:
        return Answer(warnings=("this colour fades",), audit={"colour": "red"})

    await gate.serve("fading", warn)

    kubectl = gate.control_plane.kubectl_program
    process = await asyncio.create_subprocess_exec(
        kubectl,
        f"--kubeconfig={gate.control_plane.kubeconfig}",
        *("create", "configmap", "house", "-n", gate.namespace),
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()

    assert "Warning: this colour fades" in err.decode()


async def test_our_words_come_before_the_deadline_of_the_api_server(gate: Gate) -> None:
    async def dawdle(_: Request) -> Answer:
        await asyncio.sleep(60)
        return Answer()

    await gate.serve("slow", dawdle, timeout=3)

    said = await gate.apply(gate.config_map("house"))

    assert "slow came to no decision in time; try again" in said
    assert "deadline exceeded" not in said


async def test_a_bug_denies_and_tells_nothing_of_the_object(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    async def bug(request: Request) -> Answer:
        raise KeyError((request.object or {})["data"]["password"])

    await gate.serve("buggy", bug)

    with pytest.raises(ApiError) as caught:
        await gate.write(gate.config_map("house", password="hunter2"))

    assert caught.value.status == 500
    assert "buggy failed" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert any(record.message == "plugin failed" for record in caplog.records)
    assert "hunter2" not in str([record.__dict__ for record in caplog.records])


async def test_a_big_object_is_reviewed(gate: Gate) -> None:
    row, seen = gate.row("big")
    await gate.start(row)
    await gate.asked(seen)

    await gate.write(gate.config_map("house", big="x" * 1_000_000))
    await gate.write(gate.config_map("house", big="y" * 1_000_000))

    assert len(seen.asked) == 2


async def test_subresources_are_reviewed_when_a_rule_names_them(gate: Gate) -> None:
    rules = (
        Rule(
            groups=("apps",),
            versions=("v1",),
            resources=("deployments/scale",),
            operations=("UPDATE",),
        ),
    )
    probed, seen = gate.row("probed")
    row, scaled = gate.row("scale", refuse, rules=rules)
    await gate.start(probed, row)
    await gate.asked(seen)
    await gate.kubectl("create", "deployment", "web", "--image=web", "--replicas=0")

    said = await gate.kubectl("scale", "deployment", "web", "--replicas=1")

    assert "denied the request" in said
    assert [each.subresource for each in scaled.asked] == ["scale"]
    assert scaled.asked[0].gvk == GroupVersionKind("autoscaling", "v1", "Scale")


async def test_the_user_is_who_was_impersonated(gate: Gate) -> None:
    row, seen = gate.row("who")
    await gate.start(row)
    await gate.asked(seen)
    await gate.kubectl(*("create", "rolebinding", "writer", "--clusterrole=edit", "--user=alice"))
    edit = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}
    await rights.noticed(gate.admin, "alice", edit, namespace=gate.namespace)

    view = gate.admin.impersonating("alice", extra={"provenance.penstock.dev/source": "git"})
    await view.apply(gate.config_map("house"), manager="test")

    (asked,) = seen.asked
    assert asked.user.name == "alice"
    assert dict(asked.user.extra) == {"provenance.penstock.dev/source": ("git",)}


async def test_connections_that_nobody_uses_keep_no_api_server_out(
    gate: Gate,
) -> None:
    """More of them than may be open, before and while it asks."""
    await gate.serve("open")

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


async def test_plugins_do_not_hold_each_other_up(gate: Gate) -> None:
    release = asyncio.Event()

    async def wait(_: Request) -> Answer:
        await release.wait()
        return Answer()

    slow, slow_seen = gate.row("slow", wait)
    quick, quick_seen = gate.row("quick", yes)
    await gate.start(slow, quick)
    await gate.asked(slow_seen, quick_seen)

    writes = [asyncio.create_task(gate.write(gate.config_map(f"m{n}"))) for n in range(8)]

    async def both() -> bool:
        return len(slow_seen.asked) == len(quick_seen.asked) == 8

    await gate.until(both)
    release.set()
    assert all(await asyncio.gather(*writes))
