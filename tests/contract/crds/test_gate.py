"""The gate has the API server ask it, and stored objects are written in the newest version."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import crds
from certs import injection
from controlplane.plane import ControlPlane
from crds import manifest
from crds.kind import Kind
from tests.fakes.conversionserver import ConversionServer
from tests.tools.waiting import until
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError
from toolkit.kube.migration import Migration
from toolkit.kube.stored import DEFINITION
from toolkit.objects import GroupVersionKind, Json, dig
from webhooks import configuration, definitions
from webhooks.configuration import Target
from webhooks.definitions import Definitions

CONVERTED = [kind for kind in crds.KINDS if kind.converted]


@pytest_asyncio.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as opened:
        yield opened


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ConversionServer]:
    running = ConversionServer(crds.KINDS)
    running.start()
    yield running
    await asyncio.to_thread(running.stop)


@contextlib.asynccontextmanager
async def arming(
    client: Client, server: ConversionServer, namespace: str = "default"
) -> AsyncIterator[None]:
    async def ready() -> None:
        return

    target = Target(namespace=namespace, url=server.url)
    keeper = Definitions(client, crds.KINDS, target, bundle=lambda: server.bundle, ready=ready)
    task = asyncio.create_task(keeper.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await definitions.disarm(client, crds.KINDS)


async def strategies(client: Client) -> dict[str, str]:
    found = await client.list(DEFINITION)
    names = {kind.crd_name for kind in crds.KINDS}
    return {
        crd["metadata"]["name"]: dig(crd, "spec", "conversion", "strategy")
        for crd in found
        if crd["metadata"]["name"] in names
    }


def expected(*, armed: bool) -> dict[str, str]:
    return {kind.crd_name: "Webhook" if armed and kind.converted else "None" for kind in crds.KINDS}


async def test_only_kinds_that_need_it_are_armed_and_stay_so(
    client: Client, server: ConversionServer, run: Any
) -> None:
    async def armed() -> bool:
        return await strategies(client) == expected(armed=True)

    async with arming(client, server):
        await until(armed)
        folder = str(Path(crds.__file__).parent / "yaml")
        again = ("apply", "--server-side", "--field-manager=penstock", "-k", folder)
        await asyncio.to_thread(run, *again)
        assert await armed()

        (first, *_) = CONVERTED
        nobody = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
        await client.patch(DEFINITION, first.crd_name, "", nobody, strategy="merge")
        await until(armed)

    assert await strategies(client) == expected(armed=False)


async def test_a_kind_that_needed_the_webhook_before_is_left_to_the_api_server(
    client: Client, server: ConversionServer
) -> None:
    # as an earlier release left it; another webhook of the same kind belongs to someone else
    left, foreign = crds.HELM_CHART, crds.KUSTOMIZATION
    asked = {"spec": {"conversion": server.conversion}}
    ours = asked | {"metadata": {"labels": {injection.LABEL: configuration.NAME}}}
    await client.patch(DEFINITION, left.crd_name, "", ours, strategy="merge")
    await client.patch(DEFINITION, foreign.crd_name, "", asked, strategy="merge")

    async def told() -> bool:
        return await strategies(client) == expected(armed=True) | {foreign.crd_name: "Webhook"}

    try:
        async with arming(client, server):
            await until(told)
            await client.patch(DEFINITION, left.crd_name, "", ours, strategy="merge")
            await until(told)
        crd = await client.get(DEFINITION, left.crd_name)
    finally:
        nobody = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
        await client.patch(DEFINITION, foreign.crd_name, "", nobody, strategy="merge")
    assert injection.LABEL not in crd["metadata"]["labels"]
    assert definitions.DISARMED not in crd["metadata"].get("annotations", {})


async def test_an_authority_that_was_injected_later_is_left_alone(
    client: Client, server: ConversionServer
) -> None:
    (first, second, *_) = CONVERTED
    place = ("spec", "conversion", "webhook", "clientConfig", "caBundle")

    async def bundle() -> str:
        return str(dig(await client.get(DEFINITION, first.crd_name), *place))

    async with arming(client, server):
        await until(lambda: _holds(client))
        other = ConversionServer(crds.KINDS).conversion["webhook"]["clientConfig"]["caBundle"]
        patch = [{"op": "replace", "path": "/" + "/".join(place), "value": other}]
        await client.patch(DEFINITION, first.crd_name, "", patch, strategy="json")
        await put_right(client, second)

        assert await bundle() == other


async def test_nobody_is_asked_any_more_when_the_namespace_goes(
    client: Client, server: ConversionServer, namespace: str
) -> None:
    async def disarmed() -> bool:
        return await strategies(client) == expected(armed=False)

    async with arming(client, server, namespace):
        await until(lambda: _holds(client))
        await client.delete(GroupVersionKind("", "v1", "Namespace"), namespace)

        await until(disarmed)


async def test_what_is_disarmed_by_command_stays_so_until_another_replica_takes_over(
    client: Client, server: ConversionServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def told() -> bool:
        found = [each for each in caplog.records if "somebody annotated" in each.message]
        return {each.__dict__["definition"] for each in found} == {k.crd_name for k in CONVERTED}

    async with arming(client, server):
        await until(lambda: _holds(client))

        await definitions.disarm(client, crds.KINDS)

        await until(told)
        (first, second, *_) = CONVERTED
        label = {"metadata": {"labels": {"example.com/touched": "true"}}}
        await client.patch(DEFINITION, first.crd_name, "", label, strategy="merge")
        await put_right(client, second)
        assert await strategies(client) == {
            **expected(armed=False),
            second.crd_name: "Webhook",
        }

    async with arming(client, server):
        await until(lambda: _holds(client))
        crd = await client.get(DEFINITION, first.crd_name)
        assert definitions.DISARMED not in crd["metadata"].get("annotations", {})
    label["metadata"]["labels"]["example.com/touched"] = None  # type: ignore[assignment]
    await client.patch(DEFINITION, first.crd_name, "", label, strategy="merge")


async def test_one_definition_that_was_annotated_is_left_alone_and_the_others_are_not(
    client: Client, server: ConversionServer
) -> None:
    (first, second, *_) = CONVERTED
    off: Json = {
        "metadata": {"annotations": {definitions.DISARMED: "true"}},
        "spec": {"conversion": {"strategy": "None", "webhook": None}},
    }

    async def only_one() -> bool:
        return await strategies(client) == {**expected(armed=True), first.crd_name: "None"}

    async with arming(client, server):
        await until(lambda: _holds(client))
        await client.patch(DEFINITION, first.crd_name, "", off, strategy="merge")
        await client.patch(DEFINITION, second.crd_name, "", {"spec": off["spec"]}, strategy="merge")
        await until(only_one)

        back = {"metadata": {"annotations": {definitions.DISARMED: None}}}
        await client.patch(DEFINITION, first.crd_name, "", back, strategy="merge")
        await until(lambda: _holds(client))


async def put_right(client: Client, kind: Kind[Any]) -> None:
    """Disarm one kind, and wait until the gate has armed it: it has looked at the others too.

    Twice, as it may come to this one first.
    """
    off: Json = {
        "metadata": {"annotations": {definitions.DISARMED: None}},
        "spec": {"conversion": {"strategy": "None", "webhook": None}},
    }

    async def armed() -> bool:
        return (await strategies(client))[kind.crd_name] == "Webhook"

    for _ in range(2):
        await client.patch(DEFINITION, kind.crd_name, "", off, strategy="merge")
        await until(armed)


async def _holds(client: Client) -> bool:
    return await strategies(client) == expected(armed=True)


@pytest.fixture
def taken_over(namespace: str) -> Kind[Any]:
    """Return a kind of a group of its own."""
    group = f"{namespace}.example.com"
    return dataclasses.replace(crds.GIT_REPOSITORY, group=group, categories=(), short_names=())


def stored_in(kind: Kind[Any], version: str) -> Json:
    definition = manifest.definition(kind, release="v0")
    for each in definition["spec"]["versions"]:
        each["storage"] = each["name"] == version
    return definition


async def established(client: Client, kind: Kind[Any], definition: Json) -> None:
    """Apply the definition, and wait until objects are stored as it says."""
    storage = next(v["name"] for v in definition["spec"]["versions"] if v["storage"])
    await client.apply(definition, manager="test")

    async def listed() -> bool:
        client.mapper.invalidate()
        with contextlib.suppress(ApiError):
            crd = await client.get(DEFINITION, kind.crd_name)
            await client.list(GroupVersionKind(*kind.gvk))
            return storage in dig(crd, "status", "storedVersions", default=[])
        return False

    await until(listed)


async def objects(client: Client, kind: Kind[Any], namespace: str, count: int) -> None:
    for index in range(count):
        await client.create(
            {
                "apiVersion": f"{kind.group}/v1beta1",
                "kind": kind.kind,
                "metadata": {"name": f"r{index}", "namespace": namespace},
                "spec": {"url": "https://example.com", "interval": "5m", "timeout": "1h"},
            }
        )


async def versions(client: Client, kind: Kind[Any]) -> dict[str, str]:
    found = await client.list(GroupVersionKind(*kind.gvk))
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in found}


async def test_objects_of_an_older_installation_are_stored_in_the_newest_version(
    client: Client, namespace: str, taken_over: Kind[Any]
) -> None:
    server = ConversionServer([taken_over])
    server.start()
    old, new = (stored_in(taken_over, version) for version in ("v1beta1", "v1"))
    for definition in (old, new):
        definition["spec"]["conversion"] = server.conversion
    try:
        await established(client, taken_over, old)
        await objects(client, taken_over, namespace, 12)
        await established(client, taken_over, new)
        before = await versions(client, taken_over)

        # Two that do it at the same time, as replicas that lost each other might.
        both = [Migration(client, [taken_over], rate=500) for _ in range(2)]
        await asyncio.gather(*(each.run() for each in both))

        crd = await client.get(DEFINITION, taken_over.crd_name)
        after = await versions(client, taken_over)
        again = await Migration(client, [taken_over]).migrate(taken_over)
        (first, *_) = await client.list(GroupVersionKind(*taken_over.gvk))
    finally:
        await client.delete(DEFINITION, taken_over.crd_name)
        await asyncio.to_thread(server.stop)
    assert crd["status"]["storedVersions"] == ["v1"]
    assert all(after[name] != before[name] for name in before)
    assert again
    assert first["spec"]["timeout"] == "60m"
    assert first["metadata"]["generation"] == 1


async def test_nothing_is_migrated_before_it_can_be_converted(
    client: Client, namespace: str, taken_over: Kind[Any]
) -> None:
    try:
        await established(client, taken_over, stored_in(taken_over, "v1beta1"))
        await objects(client, taken_over, namespace, 1)
        await established(client, taken_over, stored_in(taken_over, "v1"))
        before = await versions(client, taken_over)

        done = await Migration(client, [taken_over], rate=500).migrate(taken_over)

        after = await versions(client, taken_over)
        crd = await client.get(DEFINITION, taken_over.crd_name)
    finally:
        await client.delete(DEFINITION, taken_over.crd_name)
    assert not done
    assert (after, crd["status"]["storedVersions"]) == (before, ["v1beta1", "v1"])


async def test_versions_that_read_the_same_are_migrated_without_a_webhook(
    client: Client, namespace: str, taken_over: Kind[Any]
) -> None:
    plain = dataclasses.replace(taken_over, older=taken_over.older[:1])
    try:
        await established(client, plain, stored_in(plain, "v1beta2"))
        obj: Any = {
            "apiVersion": f"{plain.group}/v1beta2",
            "kind": plain.kind,
            "metadata": {"name": "r", "namespace": namespace},
            "spec": {"url": "https://e", "interval": "5m", "gitImplementation": "libgit2"},
        }
        await client.create(obj)
        await established(client, plain, stored_in(plain, "v1"))

        done = await Migration(client, [plain], rate=500).migrate(plain)

        crd = await client.get(DEFINITION, plain.crd_name)
        found = await client.get(GroupVersionKind(*plain.gvk), "r", namespace)
    finally:
        await client.delete(DEFINITION, plain.crd_name)
    assert done
    assert crd["status"]["storedVersions"] == ["v1"]
    assert obj["spec"].items() <= found["spec"].items()


async def test_what_a_webhook_refuses_is_told_and_keeps_the_old_version_listed(
    client: Client, namespace: str, taken_over: Kind[Any], caplog: pytest.LogCaptureFixture
) -> None:
    plain = dataclasses.replace(taken_over, older=taken_over.older[:1])
    policy = {"metadata": {"name": namespace}}
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    group = "admissionregistration.k8s.io"
    rule = {"apiGroups": [plain.group], "apiVersions": ["*"], "operations": ["UPDATE"]}
    spec: Any = {
        "matchConstraints": {"resourceRules": [rule | {"resources": [plain.plural]}]},
        "validations": [{"expression": "false", "message": "not on a Sunday"}],
    }
    bound: Any = {"policyName": namespace, "validationActions": ["Deny"]}
    try:
        await established(client, plain, stored_in(plain, "v1beta2"))
        await client.create(
            {
                "apiVersion": f"{plain.group}/v1beta2",
                "kind": plain.kind,
                "metadata": {"name": "r", "namespace": namespace},
                "spec": {"url": "https://e", "interval": "5m"},
            }
        )
        await established(client, plain, stored_in(plain, "v1"))
        for kind, body in zip(kinds, (spec, bound), strict=True):
            obj = {"apiVersion": f"{group}/v1", "kind": kind, **policy, "spec": body}
            await client.apply(obj, manager="test")

        async def refused() -> bool:
            patch = {"metadata": {"labels": {"probe": "x"}}}
            gvk = GroupVersionKind(*plain.gvk)
            try:
                await client.patch(gvk, "r", namespace, patch, strategy="merge", dry_run=True)
            except ApiError:
                return True
            return False

        await until(refused)
        with caplog.at_level("WARNING"):
            done = await Migration(client, [plain], rate=500).migrate(plain)
        crd = await client.get(DEFINITION, plain.crd_name)
    finally:
        for kind in kinds:
            await client.delete(GroupVersionKind(group, "v1", kind), namespace)
        await client.delete(DEFINITION, plain.crd_name)
    assert not done
    assert crd["status"]["storedVersions"] == ["v1beta2", "v1"]
    (record,) = [each for each in caplog.records if each.message.startswith("stored objects")]
    assert "not on a Sunday" in record.__dict__["first"][0]
