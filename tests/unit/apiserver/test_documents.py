"""Discovery and schemas: what they say, to whom, and that no reference leads nowhere."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from apiserver import discovery, openapi
from apiserver.discovery import Discovery
from apiserver.openapi import OpenAPI
from apiserver.resource import Parameter
from apiserver.status import StatusError
from tests.fakes.toyshop import ToyShop

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TOYS = (ToyShop().resource(),)


def asking(accept: str = "", **headers: str) -> Any:
    given = {"Accept": accept} if accept else {}
    return make_mocked_request("GET", "/", headers={**given, **headers})


async def test_aggregated_discovery_names_a_kind_for_everything() -> None:
    answer = await Discovery(TOYS).root(asking(V2))

    assert answer.headers["Content-Type"] == V2
    (group,) = json.loads(answer.body)["items"]
    (resource,) = group["versions"][0]["resources"]
    kind = {"group": "gitops.penstock.dev", "version": "v1alpha1"}
    assert resource["responseKind"] == kind | {"kind": "Toy"}
    assert [each["responseKind"]["kind"] for each in resource["subresources"]] == ["ToyReport"]
    assert "all" not in resource["categories"]


async def test_both_forms_have_the_same_resources_and_verbs() -> None:
    rows = {row["name"]: row["verbs"] for row in discovery.resource_list(TOYS)["resources"]}
    (group,) = discovery.aggregated(TOYS)["items"]
    (toys,) = group["versions"][0]["resources"]

    below = {f"toys/{each['subresource']}": each["verbs"] for each in toys["subresources"]}
    assert rows == {"toys": toys["verbs"], **below}


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "APIGroupList"),
        ("*/*", "APIGroupList"),
        ("application/json", "APIGroupList"),
        (f"{V2},application/json", "APIGroupDiscoveryList"),
        ("application/vnd.kubernetes.protobuf,application/json", "APIGroupList"),
        (f"{V2.replace('v=v2', 'v=v2beta1')},{V2}", "APIGroupDiscoveryList"),
    ],
)
async def test_the_best_form_that_a_client_takes_is_answered(accept: str, kind: str) -> None:
    answer = await Discovery(TOYS).root(asking(accept))

    assert json.loads(answer.body)["kind"] == kind


@pytest.mark.parametrize(
    "accept",
    [
        "application/vnd.kubernetes.protobuf",
        "text/html",
        V2.replace("v=v2", "v=v9"),
        V2.replace("as=", "is="),
        "application/json;q=0",
    ],
)
async def test_what_cannot_be_made_is_refused_and_never_guessed(accept: str) -> None:
    discovered = Discovery(TOYS)

    for answer in (discovered.root, discovered.group, discovered.resources, OpenAPI(TOYS).root):
        with pytest.raises(StatusError) as caught:
            await answer(asking(accept))
        assert caught.value.code == 406


async def test_what_a_client_has_is_not_sent_again() -> None:
    discovered = Discovery(TOYS)
    first = await discovered.root(asking(V2))
    tag = first.headers["ETag"]

    again = await discovered.root(asking(V2, **{"If-None-Match": f'"old", {tag}'}))
    other = await discovered.root(asking(V2, **{"If-None-Match": '"old"'}))

    assert tag == f'"{tag[1:-1].upper()}"'
    assert (again.status, again.body, other.status) == (304, None, 200)


@pytest.mark.parametrize("make", [openapi.v2, openapi.v3])
def test_every_reference_leads_to_a_definition(make: Any) -> None:
    document = make(TOYS)

    references = list(_references(document))

    assert references
    for reference in references:
        place: Any = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
        assert place["type"] == "object"


@pytest.mark.parametrize("make", [openapi.v2, openapi.v3])
def test_subresources_say_what_they_may_be_asked(make: Any) -> None:
    (toys,) = TOYS
    (report,) = toys.subresources
    asked = replace(
        report,
        verbs=("get", "create"),
        parameters=(Parameter(name="revision", required=True, description="Which one."),),
    )

    found = make((replace(toys, subresources=(asked,)),))
    path = found["paths"][
        "/apis/gitops.penstock.dev/v1alpha1/namespaces/{namespace}/toys/{name}/report"
    ]

    query = [row for row in path["parameters"] if row["in"] == "query"]
    assert [(row["name"], row["required"]) for row in query] == [("revision", True)]
    assert "ToyReport" in json.dumps(path["post"].get("requestBody") or path["post"]["parameters"])
    assert "requestBody" not in path["get"]


def test_kinds_are_found_by_group_version_and_kind() -> None:
    found = openapi.v3(TOYS)["components"]["schemas"]["dev.penstock.gitops.v1alpha1.Toy"]

    assert found["x-kubernetes-group-version-kind"] == [
        {"group": "gitops.penstock.dev", "version": "v1alpha1", "kind": "Toy"}
    ]
    assert found["description"] == "A thing to play with."


async def test_the_schemas_address_changes_when_they_do() -> None:
    schemas = OpenAPI(TOYS)
    root = json.loads((await schemas.root(asking())).body)
    (path,) = (row["serverRelativeURL"] for row in root["paths"].values())

    by_hash = await schemas.v3(make_mocked_request("GET", path))
    by_path = await schemas.v3(make_mocked_request("GET", path.partition("?")[0]))

    assert "immutable" in by_hash.headers["Cache-Control"]
    assert "immutable" not in by_path.headers["Cache-Control"]


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for each in node.values():
            yield from _references(each)
    elif isinstance(node, list):
        for each in node:
            yield from _references(each)
