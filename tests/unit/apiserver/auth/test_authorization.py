"""One question a request, with everything in it; no answer is not permission."""

import gc
import tracemalloc

import pytest
from multidict import MultiDict

from apiserver import requestinfo
from apiserver.auth.authorization import Authorization, question
from apiserver.auth.reviews import Reviews
from apiserver.call import User
from apiserver.requestinfo import RequestInfo
from apiserver.status import StatusError
from toolkit.kube.errors import ApiError
from toolkit.objects import Json

BASE = "/apis/gitops.penstock.dev/v1alpha1"
ALICE = User(name="alice", uid="1", groups=("g",), extra={"k": ("v",)})


class Server:
    """Answers every question in the same way."""

    def __init__(self, *answers: Json | ApiError) -> None:
        self.answers = list(answers)
        self.asked: list[Json] = []

    async def request(self, method: str, path: str, *, body: Json) -> Json:
        assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
        self.asked.append(body["spec"])
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ApiError):
            raise answer
        return {"status": answer}


def about(path: str, method: str = "GET", **query: str) -> RequestInfo:
    return requestinfo.parse(method, path, MultiDict(query))


class Clock:
    """Stands still until told otherwise."""

    time = 100.0

    def now(self) -> float:
        return self.time


async def test_the_same_question_is_asked_once_in_ten_seconds() -> None:
    server, clock = Server({"allowed": True}), Clock()
    asking = Authorization(Reviews(server), now=clock.now)
    info = about(f"{BASE}/namespaces/ns/artifacts/a/content")

    await asking.authorize(ALICE, info)
    await asking.authorize(ALICE, info)
    await asking.authorize(User(name="bob"), info)
    clock.time += 10.0
    await asking.authorize(ALICE, info)

    assert [spec["user"] for spec in server.asked] == ["alice", "bob", "alice"]
    assert server.asked[0] == {
        "user": "alice",
        "uid": "1",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "resourceAttributes": {
            "namespace": "ns",
            "verb": "get",
            "group": "gitops.penstock.dev",
            "version": "v1alpha1",
            "resource": "artifacts",
            "subresource": "content",
            "name": "a",
        },
    }


async def test_a_refusal_is_remembered_too_and_a_failure_is_not() -> None:
    failure = ApiError("no", status=400)
    server = Server(failure, {"allowed": False}, {"allowed": True})
    asking = Authorization(Reviews(server), now=Clock().now)
    codes = []

    for _ in range(3):
        with pytest.raises(StatusError) as caught:
            await asking.authorize(ALICE, about(f"{BASE}/artifacts"))
        codes.append(caught.value.code)

    assert codes == [500, 403, 403]
    assert len(server.asked) == 2


async def test_a_very_long_question_is_not_remembered() -> None:
    server = Server({"allowed": True})
    asking = Authorization(Reviews(server))
    info = about(f"{BASE}/namespaces/ns/artifacts/{'a' * 10_000}")

    await asking.authorize(ALICE, info)
    await asking.authorize(ALICE, info)

    assert len(server.asked) == 2


async def test_questions_of_strangers_fill_no_memory() -> None:
    server = Server({"allowed": False})
    asking = Authorization(Reviews(server))
    stranger = User(name="system:anonymous")
    tracemalloc.start()
    try:
        for number in range(200):
            with pytest.raises(StatusError):
                await asking.authorize(stranger, about(f"{BASE}/artifacts/{'a' * 9_000}{number}"))
            server.asked.clear()
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held < 200 * 2_000


async def test_masters_are_not_asked_about() -> None:
    server = Server(ApiError("nobody is there"))

    await Authorization(Reviews(server)).authorize(
        User(name="root", groups=("system:masters",)), about(f"{BASE}/artifacts")
    )

    assert server.asked == []


async def test_both_selectors_are_part_of_the_question() -> None:
    info = about(
        f"{BASE}/artifacts",
        fieldSelector="metadata.name=a,spec.kind!=b",
        labelSelector="x in (2,1),!y,z,n>5",
    )

    attributes = question(ALICE, info)["resourceAttributes"]

    assert (attributes["verb"], attributes["name"]) == ("list", "a")
    assert attributes["fieldSelector"]["requirements"] == [
        {"key": "metadata.name", "operator": "In", "values": ["a"]},
        {"key": "spec.kind", "operator": "NotIn", "values": ["b"]},
    ]
    assert attributes["labelSelector"]["requirements"] == [
        {"key": "x", "operator": "In", "values": ["1", "2"]},
        {"key": "y", "operator": "DoesNotExist"},
        {"key": "z", "operator": "Exists"},
    ]


# Word for word: `responsewriters/errors_test.go` and `kubectl get` against kube-apiserver.
MESSAGES = {
    f"{BASE}/namespaces/ns/artifacts/a": (
        'artifacts.gitops.penstock.dev "a" is forbidden: User "alice" cannot get resource'
        ' "artifacts" in API group "gitops.penstock.dev" in the namespace "ns"'
    ),
    f"{BASE}/artifacts": (
        'artifacts.gitops.penstock.dev is forbidden: User "alice" cannot list resource'
        ' "artifacts" in API group "gitops.penstock.dev" at the cluster scope'
    ),
    f"{BASE}/namespaces/ns/inventories/a/tree": (
        'inventories.gitops.penstock.dev "a" is forbidden: User "alice" cannot get resource'
        ' "inventories/tree" in API group "gitops.penstock.dev" in the namespace "ns"'
    ),
    "/metrics": 'forbidden: User "alice" cannot get path "/metrics"',
    "/<x>": 'forbidden: User "alice" cannot get path "/&lt;x&gt;"',
}


@pytest.mark.parametrize("path", MESSAGES)
async def test_a_refusal_reads_as_upstreams(path: str) -> None:
    asking = Authorization(Reviews(Server({"allowed": False})))

    with pytest.raises(StatusError) as caught:
        await asking.authorize(ALICE, about(path))

    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    assert caught.value.message == MESSAGES[path]


async def test_the_authorizers_reason_is_told() -> None:
    asking = Authorization(Reviews(Server({"allowed": False, "reason": "not on Sundays"})))

    with pytest.raises(StatusError, match=r": not on Sundays$"):
        await asking.authorize(ALICE, about(f"{BASE}/artifacts"))


async def test_a_failure_that_passes_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("asyncio.sleep", sleep)
    server = Server(ApiError("busy", status=503), ApiError("busy", status=429), {"allowed": True})

    await Authorization(Reviews(server)).authorize(ALICE, about(f"{BASE}/artifacts"))

    assert pauses == [0.5, 0.75]
