"""``migrate``: objects of an older installation are stored anew; ``flux migrate`` beside it."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import crds
from cli.versions import storing
from controlplane.plane import ControlPlane
from tests.contract.cli.conftest import SOURCE_GROUP, Penstock
from tests.tools.administrator import Administrator
from tests.tools.waiting import until
from toolkit.kube import config, migration
from toolkit.kube.client import Client
from toolkit.kube.errors import ConflictError
from toolkit.kube.stored import Stored
from toolkit.objects import GroupVersionKind, dig

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BUCKETS = f"{DEFINITIONS}/{crds.BUCKET.crd_name}"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SPEC = {"interval": "5m", "bucketName": "x", "endpoint": "s3.example.com"}


@pytest.fixture
async def client(control_plane: ControlPlane, definitions: None) -> AsyncIterator[Client]:
    del definitions
    async with Client.open(config.from_environment(str(control_plane.kubeconfig))) as opened:
        yield opened


@pytest.fixture
def old(administrator: Administrator, namespace: str, definitions: None) -> Iterator[str]:
    """Write an object in an old version, and give its path: others may be stored in that one."""
    del definitions
    listed(administrator, "v1beta2", "v1")
    write(administrator, namespace, "old", "v1beta2")
    yield f"/apis/{SOURCE_GROUP}/v1/namespaces/{namespace}/buckets/old"
    listed(administrator, "v1")


def listed(administrator: Administrator, *versions: str) -> None:
    status = {"status": {"storedVersions": list(versions)}}
    administrator.send("PATCH", f"{BUCKETS}/status", status, content=MERGE)


def write(administrator: Administrator, namespace: str, name: str, version: str) -> None:
    obj = {
        "apiVersion": f"{SOURCE_GROUP}/{version}",
        "kind": "Bucket",
        "metadata": {"name": name},
        "spec": SPEC,
    }
    path = f"/apis/{SOURCE_GROUP}/{version}/namespaces/{namespace}/buckets/{name}"
    administrator.send("PATCH", path, obj, content=APPLY, query={"fieldManager": "kubectl"})


def owners(administrator: Administrator, path: str) -> set[str]:
    found = administrator.send("GET", path)
    return {entry["apiVersion"] for entry in found["metadata"]["managedFields"]}


def stored(administrator: Administrator) -> list[str]:
    return list(administrator.send("GET", BUCKETS)["status"]["storedVersions"])


async def test_objects_are_stored_in_the_version_of_their_definition(
    old: str, administrator: Administrator, penstock: Penstock
) -> None:
    before = administrator.send("GET", old)

    tried = await asyncio.to_thread(penstock, "migrate", "--dry-run")
    untouched = administrator.send("GET", old), stored(administrator)
    done = await asyncio.to_thread(penstock, "migrate")
    after = administrator.send("GET", old)
    again = await asyncio.to_thread(penstock, "migrate")

    assert (tried.code, done.code, again.code) == (0, 0, 0), tried.err + done.err + again.err
    assert untouched == (before, ["v1beta2", "v1"])
    assert re.search(r"buckets\.source\S+: \d+ objects would be stored in v1\n", tried.err)
    assert "nothing was changed (--dry-run)" in tried.err
    assert re.search(r"buckets\.source\S+: \d+ objects are stored in v1\n", done.err)
    assert "buckets" not in again.err, "nothing was left to do"
    assert stored(administrator) == ["v1"]
    assert owners(administrator, old) == {f"{SOURCE_GROUP}/v1"}
    assert (after["spec"], after["metadata"]["generation"]) == (before["spec"], 1)
    assert administrator.send("GET", old) == after


async def test_owners_of_an_old_version_are_brought_along_without_it_being_listed(
    old: str, administrator: Administrator, penstock: Penstock
) -> None:
    listed(administrator, "v1")

    done = await asyncio.to_thread(penstock, "migrate")

    assert done.code == 0, done.err
    assert owners(administrator, old) == {f"{SOURCE_GROUP}/v1"}


async def test_these_rights_are_enough_and_none_of_them_too_many(
    old: str, administrator: Administrator, namespace: str, penstock: Penstock
) -> None:
    user = f"migrator-{namespace}"
    rules = [
        {
            "apiGroups": list(rule.groups),
            "resources": list(rule.resources),
            "verbs": list(rule.verbs),
            **({"resourceNames": list(rule.names)} if rule.names else {}),
        }
        for rule in migration.permissions(crds.KINDS)
    ]
    with role(administrator, user, rules[:-1]):
        lacking = await asyncio.to_thread(penstock, "migrate", "--as", user)
    with role(administrator, user, rules):
        done = await asyncio.to_thread(penstock, "migrate", "--as", user)

    assert lacking.code == 1
    assert "customresourcedefinitions" in lacking.err
    assert "for this right" in lacking.err
    assert done.code == 0, done.err
    assert owners(administrator, old) == {f"{SOURCE_GROUP}/v1"}


@contextlib.contextmanager
def role(administrator: Administrator, user: str, rules: list[Any]) -> Iterator[None]:
    """Give a user these rights on the cluster."""
    named = {"metadata": {"name": user}}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    administrator.send("POST", f"{RBAC}/clusterroles", {**named, "rules": rules})
    administrator.send(
        "POST", f"{RBAC}/clusterrolebindings", {**named, "roleRef": reference, "subjects": subjects}
    )
    try:
        yield
    finally:
        for plural in ("clusterrolebindings", "clusterroles"):
            administrator.send("DELETE", f"{RBAC}/{plural}/{user}")


async def test_what_the_api_server_refuses_is_named_and_keeps_its_version_listed(
    old: str, administrator: Administrator, namespace: str, penstock: Penstock
) -> None:
    async def tried(code: int) -> bool:
        return (await asyncio.to_thread(penstock, "migrate", "--dry-run")).code == code

    with refusing(administrator, namespace):
        await until(lambda: tried(1))
        done = await asyncio.to_thread(penstock, "migrate")
    # The API server enforces a policy for a moment after it was deleted.
    await until(lambda: tried(0))

    assert done.code == 1
    assert f"Bucket {namespace}/old: " in done.err
    assert "not on a Sunday" in done.err
    assert "objects are stored in v1, also in v1beta2\n" in done.err
    assert stored(administrator) == ["v1beta2", "v1"]
    assert owners(administrator, old) == {f"{SOURCE_GROUP}/v1beta2"}


@contextlib.contextmanager
def refusing(administrator: Administrator, namespace: str) -> Iterator[None]:
    """Have the API server refuse to update the Buckets of a namespace."""
    rule = {
        "apiGroups": [SOURCE_GROUP],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["buckets"],
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    named = {"metadata": {"name": namespace}}
    policy = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector},
        "validations": [{"expression": "false", "message": "not on a Sunday"}],
    }
    bound = {"policyName": namespace, "validationActions": ["Deny"]}
    plurals = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    for plural, spec in zip(plurals, (policy, bound), strict=True):
        administrator.send("POST", f"{ADMISSION}/{plural}", {**named, "spec": spec})
    try:
        yield
    finally:
        for plural in reversed(plurals):
            administrator.send("DELETE", f"{ADMISSION}/{plural}/{namespace}")


async def test_what_somebody_changes_meanwhile_is_not_undone(
    old: str, administrator: Administrator, client: Client
) -> None:
    gvk = GroupVersionKind(*crds.BUCKET.gvk)
    store = Stored(client=client, gvk=gvk, definition=crds.BUCKET.crd_name)
    name = old.split("/")[-3]
    (item,) = [each async for each in store.items() if each.key.namespace == name]
    administrator.send("PATCH", old, {"spec": {"interval": "9m"}}, content=MERGE)

    with pytest.raises(ConflictError):
        await store.write(item)
    done = await storing.written(store, every=True)

    assert str(item.key) in done.written
    assert administrator.send("GET", old)["spec"]["interval"] == "9m"
    assert owners(administrator, old) == {f"{SOURCE_GROUP}/v1"}


async def test_objects_that_only_the_webhooks_can_convert_are_left(
    administrator: Administrator, definitions: None, penstock: Penstock
) -> None:
    del definitions
    strategy = dig(administrator.send("GET", BUCKETS), "spec", "conversion", "strategy")
    assert strategy == "None", "these definitions have no webhooks"
    listed(administrator, "v1beta1", "v1")
    try:
        done = await asyncio.to_thread(penstock, "migrate")
        kept = stored(administrator)
    finally:
        listed(administrator, "v1")

    assert done.code == 1
    assert "objects in v1beta1 are converted by the webhooks" in done.err
    assert kept == ["v1beta1", "v1"]


async def test_both_leave_the_same_owners_and_versions(
    old: str, administrator: Administrator, penstock: Penstock, flux: Any
) -> None:
    label = {"metadata": {"labels": {"app.kubernetes.io/part-of": "flux"}}}
    none = {"metadata": {"labels": {"app.kubernetes.io/part-of": None}}}
    was = dig(administrator.send("GET", BUCKETS), "metadata", "labels", default={})
    administrator.send("PATCH", BUCKETS, label, content=MERGE)
    try:
        theirs = await asyncio.to_thread(flux, "migrate")
        after = owners(administrator, old), stored(administrator)
        write(administrator, old.split("/")[-3], "old", "v1beta2")
        listed(administrator, "v1beta2", "v1")
        ours = await asyncio.to_thread(penstock, "migrate")
    finally:
        back = {"metadata": {"labels": was}} if "app.kubernetes.io/part-of" in was else none
        administrator.send("PATCH", BUCKETS, back, content=MERGE)

    assert (theirs.code, ours.code) == (0, 0), theirs.err + ours.err
    assert (owners(administrator, old), stored(administrator)) == after
