"""The catalog follows sources, their users and the store, and serves nothing that is gone."""

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import MultiDict

from apiserver.artifacts import observed
from apiserver.artifacts.catalog import Catalog
from apiserver.artifacts.columns import COLUMNS
from apiserver.call import Call, User
from apiserver.status import StatusError
from apiserver.view import View
from crds import EXTERNAL_ARTIFACT, GIT_REPOSITORY
from toolkit.artifact.index import Entry, Index
from toolkit.artifact.store import Owner
from toolkit.kube.informer import Change
from toolkit.objects import ObjectKey

OWNER = Owner(kind="GitRepository", namespace="apps", name="web")
KEY = ObjectKey("apps", "web")
HERE = "gitrepository/apps/web"
DIGESTS = {letter: f"sha256:{letter * 64}" for letter in "abc"}


class Scene:
    """A catalog between informers and a view."""

    def __init__(self) -> None:
        self.view = View(kind="Artifact", api_version="gitops.penstock.dev/v1alpha1", tag=1)
        self.surveyed: list[Owner] = []
        self.catalog = Catalog(
            self.view, ours=lambda url: "store.example" in url, survey=self.surveyed.append
        )
        self.last: observed.Source | None = None
        self.revision = 0
        self.users: dict[str, observed.Consumer] = {}

    def offer(self, letter: str, uid: str = "u") -> None:
        """Have the source offer content a, b or c; nothing for the empty string."""
        self.revision += 1
        path = f"{HERE}/{letter}.tar.gz"
        artifact = {
            "digest": DIGESTS.get(letter),
            "revision": f"main@sha1:{letter}",
            "path": path,
            "url": f"http://store.example/{path}",
            "lastUpdateTime": "2026-01-01T00:00:00Z",
        }
        obj = {
            "metadata": {
                "name": "web",
                "namespace": "apps",
                "uid": uid,
                "resourceVersion": str(self.revision),
            },
            "status": {"artifact": artifact} if letter else {},
        }
        new = observed.source(GIT_REPOSITORY, msgspec.json.encode(obj))
        old, self.last = self.last, new
        self.catalog.source(Change("MODIFIED" if old else "ADDED", KEY, old, new))

    def delete(self) -> None:
        old, self.last = self.last, None
        self.catalog.source(Change("DELETED", KEY, old, None))

    def index(self, *letters: str) -> None:
        self.catalog.indexed(
            OWNER,
            Index(
                backend="local",
                artifacts=tuple(
                    Entry(file=f"{each}.tar.gz", digest=DIGESTS[each], size=1, modified=0.0)
                    for each in letters
                ),
            ),
        )

    def use(self, name: str, revision: str, source: str = "web") -> None:
        self.revision += 1
        obj = {
            "metadata": {
                "name": name,
                "namespace": "apps",
                "resourceVersion": str(self.revision),
            },
            "spec": {"sourceRef": {"kind": "GitRepository", "name": source}},
            "status": {"lastAppliedRevision": revision, "lastAttemptedRevision": revision},
        }
        new = observed.kustomization(msgspec.json.encode(obj))
        old = self.users.get(name)
        self.users[name] = new
        self.catalog.consumer(Change("MODIFIED", ObjectKey("apps", name), old, new))
        self.catalog.flush()

    def stop_using(self, name: str) -> None:
        old = self.users.pop(name)
        self.catalog.consumer(Change("DELETED", ObjectKey("apps", name), old, None))
        self.catalog.flush()

    def served(self) -> dict[str, Any]:
        """Return the objects by the letter of their content."""
        return {item.obj["spec"]["digest"][7]: item.obj for item in self.view.snapshot().items}

    def versions(self) -> list[int]:
        """Return the version of every change so far."""
        history = self.view.history
        events = history.read(history.after(0), history.end) or ()
        return [event.version for event in events]

    def users_of(self, letter: str) -> list[str]:
        return [user["name"] for user in self.served()[letter]["status"].get("usedBy", [])]


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.view.complete()
    return scene


def call(name: str) -> Call:
    return Call(
        web=make_mocked_request("GET", "/"),
        user=User(name="ada"),
        verb="get",
        path="/",
        query=MultiDict(),
        namespace="apps",
        name=name,
    )


def test_an_artifact_is_served_before_the_store_was_asked(scene: Scene) -> None:
    scene.offer("a")

    assert scene.served().keys() == {"a"}
    assert scene.surveyed == [OWNER]


def test_the_one_before_stays_as_long_as_the_store_has_it(scene: Scene) -> None:
    scene.offer("a")
    scene.index("a")
    scene.offer("b")
    scene.index("b", "a")

    served = scene.served()
    assert {letter: obj["status"]["current"] for letter, obj in served.items()} == {
        "a": False,
        "b": True,
    }
    assert served["a"]["spec"]["revision"] == "main@sha1:a"

    scene.index("b")
    assert scene.served().keys() == {"b"}


def test_an_object_that_goes_takes_all_along(scene: Scene) -> None:
    scene.offer("b")
    scene.index("b", "a")

    scene.delete()

    assert scene.served() == {}
    assert scene.catalog.address(OWNER) == ""


def test_a_withdrawn_artifact_is_not_served(scene: Scene) -> None:
    scene.offer("b")
    scene.index("b", "a")

    scene.offer("")

    assert scene.served() == {}
    scene.index("b", "a")
    assert scene.served() == {}, "an answer that was on its way brings nothing back"


def test_an_object_of_the_same_name_is_another(scene: Scene) -> None:
    scene.offer("a", uid="u")
    before = scene.served()["a"]["metadata"]["uid"]
    scene.index("a", "b")

    scene.offer("a", uid="v")

    assert scene.served().keys() == {"a"}
    assert scene.served()["a"]["metadata"]["uid"] != before


def test_a_status_that_says_nothing_new_changes_nothing(scene: Scene) -> None:
    scene.offer("a")
    before = scene.served()["a"]["metadata"]["resourceVersion"]

    scene.offer("a")

    assert scene.served()["a"]["metadata"]["resourceVersion"] == before
    assert scene.surveyed == [OWNER]


def test_users_come_and_go(scene: Scene) -> None:
    scene.offer("a")

    scene.use("apps", "main@sha1:a")
    assert scene.users_of("a") == ["apps"]
    scene.use("apps", "main@sha1:b")
    assert scene.users_of("a") == []
    scene.use("apps", "main@sha1:a")
    scene.use("apps", "main@sha1:a", source="another")
    assert scene.users_of("a") == []
    scene.use("apps", "main@sha1:a")
    scene.stop_using("apps")
    assert scene.users_of("a") == []


async def test_many_users_are_one_change(scene: Scene) -> None:
    scene.offer("a")
    before = len(changes := scene.versions())
    obj = {"spec": {"sourceRef": {"kind": "GitRepository", "name": "web"}}}
    obj["status"] = {"lastAppliedRevision": "main@sha1:a"}
    for number in range(150):
        meta = {"name": f"k{number:03}", "namespace": "apps", "resourceVersion": "9"}
        user = observed.kustomization(msgspec.json.encode(obj | {"metadata": meta}))
        scene.catalog.consumer(Change("ADDED", ObjectKey("apps", user.name), None, user))
    assert scene.versions() == changes

    task = asyncio.create_task(scene.catalog.run())
    await scene.view.changed("apps", within=60)
    task.cancel()

    assert len(scene.versions()) == before + 1
    status = scene.served()["a"]["status"]
    assert (len(status["usedBy"]), status["usedMore"]) == (100, 50)


def test_of_digests_that_begin_alike_the_current_one_counts(scene: Scene) -> None:
    scene.offer("a")
    entry = Entry(file="x.tar.gz", digest=f"sha256:{'a' * 63}b", size=1, modified=0.0)

    scene.catalog.indexed(OWNER, Index(backend="local", artifacts=(entry,)))

    (served,) = scene.view.snapshot().items
    assert served.obj["spec"]["digest"] == DIGESTS["a"]
    assert scene.catalog.require(call(served.obj["metadata"]["name"])).current


def test_users_may_be_known_before_the_source(scene: Scene) -> None:
    scene.use("apps", "main@sha1:a")

    scene.offer("a")

    assert scene.users_of("a") == ["apps"]


def test_what_is_elsewhere_is_not_asked_about(scene: Scene) -> None:
    scene.offer("a")

    assert scene.catalog.address(OWNER).startswith("http://store.example/")
    assert Catalog(scene.view, ours=lambda _: False, survey=print).address(OWNER) == ""


def test_an_artifact_is_found_by_its_name(scene: Scene) -> None:
    scene.offer("a")
    name = f"gitrepository.web.{'a' * 12}"

    assert scene.catalog.require(call(name)).digest == DIGESTS["a"]
    with pytest.raises(StatusError) as caught:
        scene.catalog.require(call("gitrepository.web.bbb"))
    assert caught.value.code == 404


def test_nothing_is_missing_before_everything_is_known() -> None:
    with pytest.raises(StatusError) as caught:
        Scene().catalog.require(call("x"))

    assert caught.value.code == 503


def test_an_address_that_is_none_costs_nobody_the_list(scene: Scene) -> None:
    scene.offer("a")
    status = {"artifact": {"digest": DIGESTS["b"], "path": "", "url": "http://["}}
    hostile = {"metadata": {"name": "evil", "namespace": "apps", "uid": "x"}, "status": status}
    source = observed.source(EXTERNAL_ARTIFACT, msgspec.json.encode(hostile))

    scene.catalog.source(Change("ADDED", ObjectKey("apps", "evil"), None, source))

    served = scene.served()
    assert served.keys() == {"a", "b"}
    assert served["b"]["status"]["stored"]["url"] == ""
    cells = [column.cell(served["b"]) for column in COLUMNS]
    assert cells[0] == "externalartifact.evil.bbbbbbbbbbbb"
