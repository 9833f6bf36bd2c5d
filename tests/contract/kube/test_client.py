"""The client against a real API server: apply, errors, impersonation, discovery."""

import contextlib

import pytest

from controlplane.plane import ControlPlane
from tests.tools.waiting import until
from toolkit.kube import errors, impersonation
from toolkit.kube.client import Client
from toolkit.kube.config import ClusterConfig
from toolkit.kube.mapper import Resource
from toolkit.objects import GroupVersionKind, Json

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def config_map(namespace: str, name: str = "a", **data: str) -> Json:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


async def test_apply_creates_then_leaves_alone_what_is_unchanged(
    client: Client, namespace: str
) -> None:
    first = await client.apply(config_map(namespace, x="1"), manager="one")
    second = await client.apply(config_map(namespace, x="1"), manager="one")
    third = await client.apply(config_map(namespace, x="2"), manager="one")

    versions = [each.object["metadata"]["resourceVersion"] for each in (first, second, third)]
    assert (first.created, second.created) == (True, False)
    assert versions[0] == versions[1] != versions[2]
    assert first.object["metadata"]["managedFields"][0]["manager"] == "one"


async def test_a_dry_run_changes_nothing(client: Client, namespace: str) -> None:
    applied = await client.apply(config_map(namespace), manager="one", dry_run=True)

    assert applied.created
    with pytest.raises(errors.NotFoundError) as caught:
        await client.get(CONFIG_MAP, "a", namespace)
    assert caught.value.api_reason == "NotFound"


@pytest.mark.parametrize("dry_run", [True, False])
async def test_apply_may_answer_with_metadata_alone(
    client: Client,
    namespace: str,
    dry_run: bool,  # noqa: FBT001 - a table
) -> None:
    body = config_map(namespace, x="1")
    whole = await client.apply(body, manager="one")

    short = await client.apply(body, manager="one", dry_run=dry_run, metadata_only=True)
    refused = body | {"data": {"x": 1}}
    with pytest.raises(errors.ApiError) as caught:
        await client.apply(refused, manager="one", dry_run=dry_run, metadata_only=True)

    assert short.object == {k: whole.object[k] for k in ("apiVersion", "kind", "metadata")}
    assert "expected string" in str(caught.value)


async def test_apply_tells_of_creation_with_metadata_alone(client: Client, namespace: str) -> None:
    applied = await client.apply(config_map(namespace, x="1"), manager="one", metadata_only=True)

    assert applied.created
    assert applied.object["metadata"]["managedFields"][0]["manager"] == "one"
    assert "data" not in applied.object


async def test_another_manager_s_field_is_a_conflict_unless_forced(
    client: Client, namespace: str
) -> None:
    await client.apply(config_map(namespace, x="1"), manager="one")

    with pytest.raises(errors.ConflictError) as caught:
        await client.apply(config_map(namespace, x="2"), manager="two", force=False)
    forced = await client.apply(config_map(namespace, x="2"), manager="two")

    assert [cause.field for cause in caught.value.causes] == [".data.x"]
    assert forced.object["data"] == {"x": "2"}


async def test_an_invalid_object_names_its_fields(client: Client, namespace: str) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {}, "spec": {}}}
    body: Json = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    body["metadata"] = {"name": "a", "namespace": namespace}

    with pytest.raises(errors.InvalidError) as caught:
        await client.apply(body, manager="one")

    assert "spec.template.metadata.labels" in {cause.field for cause in caught.value.causes}


async def test_an_unknown_field_is_refused_by_apply_itself(client: Client, namespace: str) -> None:
    body = config_map(namespace) | {"dada": {"x": "1"}}

    with pytest.raises(errors.ApiError, match="field not declared in schema"):
        await client.apply(body, manager="one")


async def test_create_refuses_what_exists(client: Client, namespace: str) -> None:
    await client.create(config_map(namespace))

    with pytest.raises(errors.AlreadyExistsError):
        await client.create(config_map(namespace))


async def test_patches_and_their_preconditions(client: Client, namespace: str) -> None:
    made = await client.create(config_map(namespace, x="1"))
    merged = await client.patch(
        CONFIG_MAP, "a", namespace, {"data": {"x": None, "y": "2"}}, strategy="merge"
    )
    jsoned = await client.patch(
        CONFIG_MAP,
        "a",
        namespace,
        [{"op": "replace", "path": "/data/y", "value": "3"}],
        strategy="json",
    )
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {}}

    with pytest.raises(errors.ConflictError):
        await client.patch(CONFIG_MAP, "a", namespace, stale, strategy="merge")

    assert (merged["data"], jsoned["data"]) == ({"y": "2"}, {"y": "3"})


async def test_delete_takes_only_the_object_that_is_meant(client: Client, namespace: str) -> None:
    made = await client.create(config_map(namespace))

    with pytest.raises(errors.ConflictError):
        await client.delete(CONFIG_MAP, "a", namespace, uid="another")
    await client.delete(CONFIG_MAP, "a", namespace, uid=made["metadata"]["uid"], dry_run=True)
    await client.delete(CONFIG_MAP, "a", namespace, uid=made["metadata"]["uid"])

    with pytest.raises(errors.NotFoundError):
        await client.delete(CONFIG_MAP, "a", namespace)


async def test_a_list_of_many_pages_is_complete(client: Client, namespace: str) -> None:
    for number in range(7):
        await client.create(config_map(namespace, f"cm-{number}"))

    items = await client.list(CONFIG_MAP, namespace, limit=3)

    names = {item["metadata"]["name"] for item in items}
    assert {f"cm-{number}" for number in range(7)} <= names
    assert {item["apiVersion"] for item in items} == {"v1"}


async def test_an_impersonated_account_is_forbidden_what_it_may_not(
    client: Client, namespace: str
) -> None:
    view = client.impersonating(impersonation.service_account(namespace, "nobody"))

    with pytest.raises(errors.ForbiddenError, match=f"system:serviceaccount:{namespace}:nobody"):
        await view.apply(config_map(namespace), manager="one")


async def test_provenance_extras_reach_the_server(client: Client) -> None:
    extra = impersonation.provenance(
        applier="Kustomization/a/b",
        source="GitRepository/a/ü",
        revision="main@sha1:abc",
        digest="sha256:def",
        verified="",
    )
    view = client.impersonating("tenant", extra=extra)
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    review = await view.request(
        "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=kind
    )

    info = review["status"]["userInfo"]
    assert info["username"] == "tenant"
    assert info["extra"] == {key: [value] for key, value in extra.items()}


async def test_a_service_account_token_authenticates(
    client: Client, control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.kubectl("create", "serviceaccount", "robot", f"--namespace={namespace}")
    token = control_plane.token(namespace, "robot")
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

    cluster = ClusterConfig(server=control_plane.server, ca=control_plane.ca, token=lambda: token)
    async with Client.open(cluster) as robot:
        review = await robot.request("POST", path, body=kind)

    user = impersonation.service_account(namespace, "robot")
    assert review["status"]["userInfo"]["username"] == user
    assert client.server == robot.server


async def test_a_kind_is_found_soon_after_its_definition_is_installed(client: Client) -> None:
    gvk = GroupVersionKind("test.penstock.dev", "v1", "Late")
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    body: Json = {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {"name": "lates.test.penstock.dev"},
        "spec": {
            "group": gvk.group,
            "scope": "Cluster",
            "names": {"kind": "Late", "plural": "lates"},
            "versions": [version],
        },
    }
    with pytest.raises(errors.NoMatchError):
        await client.mapper.resource(gvk)
    await client.apply(body, manager="test")

    async def found() -> Resource | None:
        with contextlib.suppress(errors.NoMatchError):
            return await client.mapper.resource(gvk)
        return None

    try:
        resource = await until(found)
    finally:
        await client.delete(CRD, "lates.test.penstock.dev")

    assert resource.path("x") == "/apis/test.penstock.dev/v1/lates/x"
    assert not resource.namespaced
