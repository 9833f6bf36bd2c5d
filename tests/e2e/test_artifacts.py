"""Artifacts of a source that really is fetched, as kubectl shows them."""

import asyncio
import json
import time
from collections.abc import Callable

import pytest

from tests.e2e.conftest import DEADLINE, Space, config_map
from tests.e2e.plans import fetch, start
from tests.tools import rights
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROOT = "/apis/gitops.penstock.dev/v1alpha1"


class Shelf:
    """kubectl and the artifacts of the space, off the event loop."""

    def __init__(self, space: Space) -> None:
        self.space = space

    async def __call__(self, *words: str, as_: str = "") -> str:
        who = [f"--as=system:serviceaccount:{self.space.namespace}:{as_}"] if as_ else []
        kubectl = self.space.world.plane.kubectl
        return await asyncio.to_thread(kubectl, "-n", self.space.namespace, *words, *who)

    async def raw(self, name: str, rest: str, *, as_: str = "") -> str:
        path = f"{ROOT}/namespaces/{self.space.namespace}/artifacts/{name}/{rest}"
        return await self("get", "--raw", path, as_=as_)

    async def refused(self, name: str, rest: str, *, as_: str) -> str:
        """Return what kubectl says when it fails."""
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever kubectl raises
            await self.raw(name, rest, as_=as_)
        return str(raised.value) + str(getattr(raised.value, "stderr", ""))

    async def until(self, holds: Callable[[dict[str, Json]], bool]) -> dict[str, Json]:
        """Return the artifacts by revision once something is true of them."""
        deadline = time.monotonic() + DEADLINE
        path = f"{ROOT}/namespaces/{self.space.namespace}/artifacts"
        found: dict[str, Json] = {}
        while time.monotonic() < deadline:
            listed = (await self.space.world.api.request("GET", path))["items"]
            found = {each["spec"].get("revision", ""): each for each in listed}
            if holds(found):
                return found
            await asyncio.sleep(0.1)
        pytest.fail(f"the artifacts did not get there; they are {json.dumps(found, indent=1)}")


@pytest.fixture
def shelf(space: Space) -> Shelf:
    return Shelf(space)


async def test_two_commits_are_two_artifacts(space: Space, shelf: Shelf) -> None:
    before = await start(
        space, {"a.yaml": config_map("a", v="1"), "b.yaml": config_map("b", v="1")}
    )
    commit = space.repositories[0].commit({"a.yaml": config_map("a", v="2"), "b.yaml": None})
    await fetch(space, commit)
    after = f"main@sha1:{commit}"
    await space.ready(revision=commit)

    found = await shelf.until(
        lambda found: (
            set(found) == {before, after}
            and found[after]["status"].get("usedBy", [{}])[0].get("state") == "Applied"
        )
    )
    name = found[after]["metadata"]["name"]
    diff = json.loads(await shelf.raw(name, f"diff?from={before}"))
    text = await shelf.raw(name, "files?path=a.yaml")
    table = await shelf("get", "art", "-o", "wide")

    assert found[after]["status"]["usedBy"][0]["name"] == "app"
    assert found[before]["status"]["current"] is False
    assert found[before]["status"]["stored"]["backend"] == "local"
    assert "usedBy" not in found[before]["status"]
    assert {(each["path"], each["change"]) for each in diff["files"]} == {
        ("a.yaml", "Modified"),
        ("b.yaml", "Removed"),
    }
    assert text == config_map("a", v="2")
    assert table.splitlines()[0].split() == [
        *("NAME", "SOURCE", "REVISION", "CURRENT", "SIZE", "VERIFIED", "AGE"),
        *("DIGEST", "STORED", "USED", "BY"),
    ]


async def test_viewers_see_no_content(space: Space, shelf: Shelf) -> None:
    before = await start(space, {"a.yaml": config_map("a", v="1")})
    (artifact,) = (await shelf.until(lambda found: set(found) == {before})).values()
    name = artifact["metadata"]["name"]
    for role, part in (("view", "diff"), ("edit", "files")):
        await shelf("create", "serviceaccount", role)
        subject = f"--serviceaccount={space.namespace}:{role}"
        await shelf("create", "rolebinding", role, f"--clusterrole={role}", subject)
        resources = ["artifacts", f"artifacts/{part}"]
        rule = {"apiGroups": ["gitops.penstock.dev"], "resources": resources, "verbs": ["get"]}
        user = f"system:serviceaccount:{space.namespace}:{role}"
        await rights.noticed(space.world.api, user, rule, namespace=space.namespace)

    listed = await shelf("get", "artifacts", as_="view")
    compared = json.loads(await shelf.raw(name, f"diff?from={before}", as_="view"))
    answers = [
        await shelf.refused(name, part, as_="view") for part in ("files?path=a.yaml", "content")
    ]
    text = await shelf.raw(name, "files?path=a.yaml", as_="edit")

    assert name in listed
    assert compared["files"] == []
    for answer in answers:
        assert "forbidden" in answer
    assert text == config_map("a", v="1")
