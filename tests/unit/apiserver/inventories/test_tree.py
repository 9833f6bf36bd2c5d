"""The tree below applied objects, read in bounded steps."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from apiserver.inventories.projection import Inventories
from apiserver.inventories.tree import Tree
from apiserver.view import View
from tests.fakes.evaluating import NoEvaluator
from tests.unit.apiserver.inventories.scene import APPLIER, KEY, applied, seen
from tests.unit.apiserver.inventories.served import asked
from toolkit.kube import errors
from toolkit.kube.informer import Change
from toolkit.kube.mapper import Resource
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

DEPLOYMENT = ObjectRef(GroupVersionKind("apps", "v1", "Deployment"), "shop", "web")
ELSEWHERE = ObjectRef(GroupVersionKind("apps", "v1", "Deployment"), "bank", "vault")
STATEFUL_SET = ObjectRef(GroupVersionKind("apps", "v1", "StatefulSet"), "shop", "web")
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
        self.sent = 0
        self.mapper = self
        self._forbidden = forbidden

    async def resource(self, gvk: GroupVersionKind) -> Resource:
        return Resource(gvk=gvk, plural=f"{gvk.kind.lower()}s", namespaced=True)

    @asynccontextmanager
    async def watch(
        self, path: str, *, query: Mapping[str, str], accept: str
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        assert accept == "application/json"
        assert "resourceVersion" not in query, "the watch cache may take no notice of a limit"
        yield self._chunks(path, query)

    async def _chunks(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        body = msgspec.json.encode(self._page(path, query))
        for start in range(0, len(body), 64 << 10):
            chunk = body[start : start + (64 << 10)]
            self.sent += len(chunk)
            yield chunk

    def _page(self, path: str, query: Mapping[str, str]) -> Json:
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
    inventories = Inventories(api, APPLIER, view, evaluates=NoEvaluator())
    observation: Any = inventories.observation
    observation.reason = lambda _: ""
    inventories.applier(Change("ADDED", KEY, None, applied(*states)))
    for ref, state in states.items():
        inventories.seen(ref, state)
    view.complete()
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


async def test_what_an_object_of_another_namespace_owns_is_not_shown() -> None:
    api = Api()
    api.objects["bank", "replicasets"] = [owned("vault-1", "u", namespace="bank")]
    api.objects["bank", "pods"] = [owned("vault-1-a", "u-vault-1", namespace="bank")]

    found = await tree(api, {ELSEWHERE: seen()})

    assert found[0]["health"] == "Current", "it is the applier's own"
    assert api.lists == []
    assert "children" not in found[0]
    assert found[0]["unread"] == "what it owns is in namespace bank: look there"


async def test_large_objects_are_not_read_on_and_on() -> None:
    api = Api()
    large = {"annotations": {"note": "x" * 575_000}}
    objects = [owned(f"r{number}", "u") for number in range(400)]
    api.objects["shop", "replicasets"] = [
        {"metadata": {**one["metadata"], **large}} for one in objects
    ]

    found = await tree(api, {DEPLOYMENT: seen()})

    assert "too large" in found[0]["unread"]
    assert api.sent < 9 << 20


async def test_many_bytes_are_read_for_one_answer_and_no_more() -> None:
    api = Api()
    large = {"annotations": {"note": "x" * 100_000}}
    objects = [owned(f"r{number}", "u") for number in range(1000)]
    api.objects["shop", "replicasets"] = [
        {"metadata": {**one["metadata"], **large}} for one in objects
    ]

    found = await tree(api, {DEPLOYMENT: seen()})

    assert "too large" in found[0]["unread"]
    assert 600 <= len(found[0]["children"]) < 700
    assert api.sent <= (64 << 20) + (64 << 10)


async def test_children_tell_how_they_fare() -> None:
    api = Api()
    pod = owned("web-0", "u") | {"status": {"phase": "Succeeded"}}
    leaving = owned("web-1", "u")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api.objects["shop", "pods"] = [pod, leaving]

    found = await tree(api, {STATEFUL_SET: seen()})

    health = [(one["name"], one["health"]) for one in found[0]["children"]]
    assert health == [("web-0", "Current"), ("web-1", "Terminating")]


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
