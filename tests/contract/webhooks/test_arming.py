"""When the API server asks, when it does not, and that nobody is locked out."""

import asyncio
import contextlib
import sys

import pytest

from certs import injection
from tests.contract.webhooks.conftest import Gate, Recorder
from tests.contract.webhooks.tenants import CONFIG_MAP
from tests.tools import namespaces
from toolkit.errors import PenstockError
from toolkit.kube import rbac
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.objects import GroupVersionKind, Json
from webhooks import configuration
from webhooks.plugin import Answer, DeniedError, Row, Rule
from webhooks.request import Request

CLUSTER_ROLE = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")
SECRET = GroupVersionKind("", "v1", "Secret")
STORAGE_CLASS = GroupVersionKind("storage.k8s.io", "v1", "StorageClass")
EVERYTHING = (
    Rule(
        groups=("*",),
        resources=("*",),
        operations=("CREATE", "UPDATE", "DELETE"),
    ),
)


async def no(_: Request) -> Answer:
    raise DeniedError("nothing passes")


async def registered(gate: Gate) -> Json | None:
    with contextlib.suppress(NotFoundError):
        return await gate.admin.get(injection.VALIDATING, configuration.CONFIGURATION)
    return None


async def unanswered(gate: Gate, obj: Json) -> bool:
    """Tell whether the API server refuses a write because nobody answers it."""
    try:
        await gate.write(obj, dry_run=True)
    except ApiError as exc:
        return "failed calling webhook" in str(exc)
    return False


async def test_nothing_is_asked_before_a_replica_serves(gate: Gate) -> None:
    row, seen = gate.row("gate")

    assert await registered(gate) is None
    await gate.start(row)
    await gate.asked(seen)

    found = await registered(gate)
    assert found is not None
    (webhook,) = found["webhooks"]
    assert webhook["failurePolicy"] == "Fail"
    assert webhook["sideEffects"] == "None"
    assert webhook["clientConfig"]["caBundle"]


async def test_what_is_ours_is_refused_while_nobody_answers(gate: Gate) -> None:
    replica = await gate.serve()

    await replica.stop()

    said = await gate.refused(gate.config_map("house"))
    assert "failed calling webhook" in said
    assert "gate.admission.penstock.dev" in said


async def test_a_plugin_may_fail_open(gate: Gate) -> None:
    replica = await gate.serve("open", fail_open=True)

    await replica.stop()

    assert "created" in await gate.apply(gate.config_map("house"))


async def test_a_cluster_that_starts_without_us_is_not_locked(gate: Gate) -> None:
    """The configuration is there and nobody answers; then a replica comes."""
    row, seen = gate.row("all", no, rules=EVERYTHING, namespace_selector=None, everywhere=False)
    await first_life(gate, row, seen)
    outside = (await gate.beside()).namespace
    elsewhere = {**gate.config_map("house"), "metadata": {"name": "house", "namespace": outside}}
    await gate.until(lambda: unanswered(gate, elsewhere))

    # What a cluster and this process live on is written all the same.
    for namespace in ("kube-system", "kube-node-lease", gate.namespace):
        metadata = {"name": f"free-{gate.namespace}", "namespace": namespace}
        await gate.admin.create({**elsewhere, "metadata": metadata})
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "free", "namespace": outside},
    }
    await gate.admin.apply(lease, manager="test")
    with pytest.raises(ApiError, match="failed calling webhook"):
        await gate.admin.apply(elsewhere, manager="test")

    await gate.start(row)

    async def answered() -> bool:
        with contextlib.suppress(PenstockError):
            await gate.admin.apply(elsewhere, manager="test", dry_run=True)
        return bool(seen.asked)

    await gate.until(answered)
    with pytest.raises(ApiError, match="nothing passes"):
        await gate.admin.apply(elsewhere, manager="test")


async def first_life(gate: Gate, row: Row, seen: Recorder) -> None:
    """Arm, and go away."""
    replica = await gate.start(row)

    async def armed() -> bool:
        return await registered(gate) is not None

    await gate.until(armed)
    await replica.stop()
    seen.asked.clear()


async def test_finalizers_go_while_nobody_answers(gate: Gate) -> None:
    rules = (Rule(groups=("",), versions=("v1",), resources=("configmaps",)),)
    replica = await gate.serve("gate", rules=rules)
    held = gate.config_map("held", a="1")
    held["metadata"]["finalizers"] = ["example.com/held"]
    await gate.write(held)
    await replica.stop()
    await gate.admin.delete(CONFIG_MAP, "held", gate.namespace)

    with pytest.raises(ApiError, match="failed calling webhook"):
        await gate.admin.patch(
            CONFIG_MAP, "held", gate.namespace, {"data": {"a": "2"}}, strategy="merge"
        )
    with pytest.raises(ApiError, match="failed calling webhook"):
        await gate.admin.patch(CONFIG_MAP, "held", gate.namespace, {"data": None}, strategy="merge")
    await gate.admin.patch(
        CONFIG_MAP, "held", gate.namespace, {"metadata": {"finalizers": None}}, strategy="merge"
    )

    with pytest.raises(NotFoundError):
        await gate.admin.get(CONFIG_MAP, "held", gate.namespace)


async def test_garbage_is_collected_while_nobody_answers(gate: Gate) -> None:
    replica = await gate.serve()
    await gate.write(gate.config_map("owner"))
    secret = {**gate.config_map("owner"), "kind": "Secret"}
    owner = (await gate.admin.apply(secret, manager="test")).object
    owned = gate.config_map("owned")
    owned["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
    ]
    await gate.write(owned)
    await replica.stop()

    with pytest.raises(ApiError, match="failed calling webhook"):
        await gate.admin.delete(CONFIG_MAP, "owner", gate.namespace)
    await gate.admin.delete(SECRET, "owner", gate.namespace, propagation="Foreground")

    async def collected() -> bool:
        maps = await gate.admin.list(CONFIG_MAP, gate.namespace)
        secrets = await gate.admin.list(SECRET, gate.namespace)
        names = {each["metadata"]["name"] for each in (*maps, *secrets)}
        return "owned" not in names and [each["metadata"]["name"] for each in secrets] == [
            "webhook-certificates"
        ]

    await gate.until(collected)


async def test_what_others_change_is_put_right(gate: Gate) -> None:
    await gate.serve()

    change = [
        {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"},
        {"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": ""},
    ]
    await gate.admin.patch(
        injection.VALIDATING, configuration.CONFIGURATION, "", change, strategy="json"
    )

    async def right() -> bool:
        found = await registered(gate)
        webhook = (found or {"webhooks": [{}]})["webhooks"][0]
        return webhook["failurePolicy"] == "Fail" and bool(webhook["clientConfig"].get("caBundle"))

    await gate.until(right)


async def test_what_others_add_goes(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    """A server-side apply leaves entries alone that others added to lists."""
    row, _ = gate.row("gate", no)
    await gate.start(row)

    async def right() -> bool:
        found = await registered(gate) or {"webhooks": [{}]}
        named = [condition["name"] for condition in found["webhooks"][0].get("matchConditions", ())]
        return len(found["webhooks"]) == 1 and named[-1:] == [configuration.REMOVAL.name]

    await gate.until(right)
    armed = await registered(gate)
    assert armed is not None
    (webhook,) = armed["webhooks"]
    never = {"name": "never", "expression": "false"}
    changed = {**webhook, "matchConditions": [*webhook["matchConditions"], never]}
    another = {**webhook, "name": "another.example.com", "failurePolicy": "Ignore"}
    # The last change tells that the process has rested after those before it.
    for webhooks in ([changed], [webhook, another], [changed]):
        change = [{"op": "replace", "path": "/webhooks", "value": webhooks}]
        await gate.admin.patch(
            injection.VALIDATING, configuration.CONFIGURATION, "", change, strategy="json"
        )
        await gate.until(right)

    async def denied() -> bool:
        line = ("apply", "--dry-run=server")
        return "nothing passes" in await gate.kubectl.answer(*line, obj=gate.config_map("house"))

    await gate.until(denied)
    again = await registered(gate)
    assert again is not None
    assert again["webhooks"] == armed["webhooks"]
    # Each change was one write, and so was what put it right.
    assert again["metadata"]["generation"] == armed["metadata"]["generation"] + 6
    told = [each for each in caplog.records if each.message == "removing what others added"]
    assert len(told) == 3


async def test_a_deleted_configuration_stays_deleted(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    row, seen = gate.row("gate", no)
    replica = await gate.start(row)
    await gate.asked(seen)

    await gate.admin.delete(injection.VALIDATING, configuration.CONFIGURATION)

    async def told() -> bool:
        return any("disarmed" in record.message for record in caplog.records)

    async def admitted() -> bool:
        return "created" in await gate.kubectl.answer("apply", obj=gate.config_map("house"))

    await gate.until(told)
    assert await registered(gate) is None
    await gate.until(admitted)
    await replica.stop()
    await gate.start(row)
    await gate.asked(seen)
    assert "nothing passes" in await gate.refused(gate.config_map("barn"))


async def test_a_command_disarms(gate: Gate) -> None:
    await gate.serve()

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "webhooks", "disarm"),
        f"--kubeconfig={gate.control_plane.kubeconfig}",
    )

    assert await process.wait() == 0
    assert await registered(gate) is None


async def test_uninstalling_disarms(gate: Gate) -> None:
    replica = await gate.serve()
    await replica.stop()
    assert await unanswered(gate, gate.config_map("probe"))

    await gate.admin.delete(CLUSTER_ROLE, configuration.CLUSTER_ROLE)

    async def gone() -> bool:
        return await registered(gate) is None

    await gate.until(gone)


async def test_deleting_our_namespace_disarms_before_the_pods_go(gate: Gate) -> None:
    await gate.serve()

    await gate.admin.delete(namespaces.NAMESPACE, gate.namespace)

    async def gone() -> bool:
        return await registered(gate) is None

    await gate.until(gone)


async def test_plugins_that_are_gone_leave_no_configuration(gate: Gate) -> None:
    replica = await gate.serve()
    await replica.stop()

    await gate.start()

    async def gone() -> bool:
        return await registered(gate) is None

    await gate.until(gone)


async def test_a_disabled_plugin_is_neither_asked_nor_served(gate: Gate) -> None:
    asked, seen = gate.row("gate")
    silent, unseen = gate.row("silent", no)

    await gate.start(asked, silent, disable_admission_plugins=("silent",))
    await gate.asked(seen)

    found = await registered(gate) or {"webhooks": []}
    assert [each["name"] for each in found["webhooks"]] == ["gate.admission.penstock.dev"]
    assert "created" in await gate.apply(gate.config_map("house"))
    assert unseen.asked == []
    with pytest.raises(ValueError, match="silnet is not one of gate, silent"):
        await gate.start(asked, silent, disable_admission_plugins=("silnet",))


async def test_a_plugin_that_goes_by_policies_is_asked_while_there_is_one(gate: Gate) -> None:
    """A StorageClass stands for the policy: there is none in this cluster."""
    watch = rbac.Rule(
        groups=(STORAGE_CLASS.group,), resources=("storageclasses",), verbs=("list", "watch")
    )
    always, seen = gate.row("gate")
    needy, _ = gate.row("needy", needed=STORAGE_CLASS, permissions=(watch,))
    name = gate.namespace
    await gate.grant(always, needy)

    async def asked() -> set[str]:
        found = await registered(gate)
        hooks = found["webhooks"] if found else []
        return {hook["name"].partition(".")[0] for hook in hooks}

    async def both() -> bool:
        return await asked() == {"gate", "needy"}

    async def one() -> bool:
        return await asked() == {"gate"}

    await gate.start(always, needy)
    await gate.asked(seen)
    assert await asked() == {"gate"}

    policy = {
        "apiVersion": STORAGE_CLASS.api_version,
        "kind": STORAGE_CLASS.kind,
        "metadata": {"name": name},
        "provisioner": "example.org/none",
    }
    await gate.admin.create(policy)
    await gate.until(both)
    await gate.admin.delete(STORAGE_CLASS, name)
    await gate.until(one)
