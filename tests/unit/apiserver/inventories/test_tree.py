"""The tree below applied objects, read in bounded steps."""

from typing import Any

import pytest

from apiserver.inventories.projection import Inventories
from apiserver.inventories.tree import Tree
from apiserver.view import View
from tests.unit.apiserver.inventories.scene import APPLIER, KEY, applied, seen
from tests.unit.apiserver.inventories.served import asked
from toolkit.kube import errors
from toolkit.kube.informer import Change
from toolkit.kube.mapper import Resource
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

DEPLOYMENT = ObjectRef(GroupVersionKind("apps", "v1", "Deployment"), "shop", "web")
ELSEWHERE = ObjectRef(GroupVersionKind("apps", "v1", "Deployment"), "bank", "vault")
SERVICE = ObjectRef(GroupVersionKind("", "v1", "Service"), "shop", "web")


def owned(name: str, owner: str, *, namespace: str = "shop") -> Json:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"u-{name}",
        "ownerReferences": [{"uid": owner}],
    }
    return {"metadata": metadata}


class Api:
    """Lists what a test puts here, page by page; kinds in ``forbidden`` may not be listed."""

    def __init__(self, forbidden: str = "") -> None:
        self.objects: dict[tuple[str, str], list[Json]] = {}
        self.lists: list[str] = []
        self.mapper = self
        self._forbidden = forbidden

    async def resource(self, gvk: GroupVersionKind) -> Resource:
        return Resource(gvk=gvk, plural=f"{gvk.kind.lower()}s", namespaced=True)

    async def request(self, method: str, path: str, *, query: dict[str, str]) -> Json:
        assert method == "GET"
        namespace, plural = path.split("/")[-2:]
        self.lists.append(f"{namespace}/{plural}")
        if plural == self._forbidden:
            raise errors.ForbiddenError("no right")
        start, size = int(query.get("continue") or 0), int(query["limit"])
        every = self.objects.get((namespace, plural), [])
        more = {"continue": str(start + size)} if start + size < len(every) else {}
        return {"metadata": more, "items": every[start : start + size]}


async def tree(api: Any, states: dict[ObjectRef, Any]) -> list[Json]:
    view = View(kind="Inventory", api_version="gitops.penstock.dev/v1alpha1", tag=1)
    inventories = Inventories(api, APPLIER, view)
    observation: Any = inventories.observation
    observation.reason = lambda _: ""
    inventories.applier(Change("ADDED", KEY, None, applied(*states)))
    for ref, state in states.items():
        inventories.seen(ref, state)
    async with asked(Tree(api, inventories, view).handle) as ask:
        answer = await ask()
    assert answer.status == 200, answer.body
    found: list[Json] = answer.body["objects"]
    return found


async def test_children_are_found_by_uid_in_the_namespace_of_their_owner() -> None:
    api = Api()
    api.objects["shop", "replicasets"] = [owned("web-1", "u"), owned("other-1", "else")]
    api.objects["shop", "pods"] = [owned("web-1-b", "u-web-1"), owned("web-1-a", "u-web-1")]
    api.objects["shop", "endpointslices"] = [owned("web-x", "s")]

    found = await tree(api, {DEPLOYMENT: seen(), SERVICE: seen(uid="s")})

    (replica_set,) = found[0]["children"]
    assert replica_set["name"] == "web-1"
    assert [pod["name"] for pod in replica_set["children"]] == ["web-1-a", "web-1-b"]
    assert [one["kind"] for one in found[1]["children"]] == ["EndpointSlice"]
    assert sorted(api.lists) == ["shop/endpointslices", "shop/pods", "shop/replicasets"]


async def test_nothing_below_somebody_elses_object_is_read() -> None:
    api = Api()
    api.objects["bank", "replicasets"] = [owned("vault-1", "u", namespace="bank")]

    found = await tree(api, {ELSEWHERE: seen(owner=ObjectKey("bank", "vault"))})

    assert api.lists == []
    assert "children" not in found[0]
    assert found[0]["health"] == "Unknown"


async def test_kinds_that_may_not_be_listed_are_said_to_be_unread() -> None:
    api = Api(forbidden="replicasets")

    found = await tree(api, {DEPLOYMENT: seen()})

    assert "ReplicaSets cannot be read" in found[0]["unread"]


async def test_a_crowd_is_cut_off_and_said_to_be() -> None:
    api = Api()
    api.objects["shop", "replicasets"] = [owned(f"r{number}", "u") for number in range(5600)]

    found = await tree(api, {DEPLOYMENT: seen()})

    assert len(found[0]["children"]) == 5000
    assert "not all are shown" in found[0]["unread"]


@pytest.mark.parametrize("loop", ["u", "u-web-1"])
async def test_objects_that_own_each_other_end(loop: str) -> None:
    api = Api()
    api.objects["shop", "replicasets"] = [{**owned("web-1", "u")}]
    api.objects["shop", "replicasets"][0]["metadata"]["uid"] = loop
    api.objects["shop", "pods"] = [owned("pod", loop)]

    found = await tree(api, {DEPLOYMENT: seen()})

    assert found[0]["children"][0]["children"][0]["name"] == "pod"
