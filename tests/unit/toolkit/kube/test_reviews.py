"""Only a plain yes lets somebody in, and only for the very question that was asked."""

from typing import Any

import pytest

from toolkit.kube import reviews
from toolkit.kube.errors import UnreachableError
from toolkit.kube.reviews import User
from toolkit.objects import Json

ALICE = User(name="alice", uid="1", groups=("dev",), extra={"k": ("v",)})
ATTRIBUTES = {"verb": "get", "resource": "pods", "namespace": "apps", "name": "web"}


class Server:
    """Gives one answer to every review."""

    def __init__(self, answer: Json | None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str, Json]] = []

    async def request(self, method: str, path: str, *, body: Json) -> Json:
        self.asked.append((method, path, body))
        if self.answer is None:
            raise UnreachableError("no answer")
        return self.answer


def yes(**status: Any) -> Json:
    user = {"username": "alice", "uid": "1", "groups": ["dev"], "extra": {"k": ["v"]}}
    return {"status": {"authenticated": True, "user": user, **status}}


async def test_a_token_is_reviewed_for_the_audience_that_is_named() -> None:
    server = Server(yes(audiences=["ours"]))

    found = await reviews.whose(server, "t", audience="ours")

    assert found == User(name="alice", uid="1", groups=("dev",), extra={"k": ["v"]})
    assert server.asked == [
        (
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": "t", "audiences": ["ours"]},
            },
        )
    ]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"status": None},
        yes(authenticated=False, audiences=["ours"]),
        yes(authenticated="true", audiences=["ours"]),
        yes(authenticated=1, audiences=["ours"]),
        yes(user=None, audiences=["ours"]),
        yes(user={"username": ""}, audiences=["ours"]),
        yes(),
        yes(audiences=None),
        yes(audiences=["theirs"]),
    ],
)
async def test_a_token_that_is_not_plainly_somebodys_is_nobodys(answer: Json) -> None:
    assert await reviews.whose(Server(answer), "t", audience="ours") is None


@pytest.mark.parametrize("status", [None, {}, {"allowed": None}, {"allowed": "true"}])
async def test_what_is_no_plain_yes_is_no(status: Json | None) -> None:
    spec = reviews.question(ALICE, resourceAttributes=ATTRIBUTES)

    assert not (await reviews.allowed(Server({"status": status}), spec)).allowed


async def test_a_refusal_says_why_and_a_permission_nothing() -> None:
    spec = reviews.question(ALICE, resourceAttributes=ATTRIBUTES)
    no, told = (Server({"status": {"allowed": it, "reason": "RBAC"}}) for it in (False, True))

    assert await reviews.allowed(no, spec) == reviews.Answer(allowed=False, reason="RBAC")
    assert await reviews.allowed(told, spec) == reviews.Answer(allowed=True)
    assert no.asked[0][2]["spec"] == {
        "user": "alice",
        "uid": "1",
        "groups": ["dev"],
        "extra": {"k": ["v"]},
        "resourceAttributes": ATTRIBUTES,
    }


async def test_no_answer_is_neither_yes_nor_no() -> None:
    with pytest.raises(UnreachableError):
        await reviews.allowed(Server(None), {})
    with pytest.raises(UnreachableError):
        await reviews.whose(Server(None), "t")


def test_an_answer_is_remembered_for_one_question() -> None:
    extra = {"a": ("1", "2"), "b": ("3",)}
    same = reviews.question(User(name="alice", extra=extra), resourceAttributes=ATTRIBUTES)
    turned = User(name="alice", extra=dict(reversed(extra.items())))
    specs = [
        same,
        reviews.question(User(name="alice", uid="1", extra=extra), resourceAttributes=ATTRIBUTES),
        reviews.question(
            User(name="alice", groups=("g",), extra=extra), resourceAttributes=ATTRIBUTES
        ),
        reviews.question(
            User(name="alice", extra={"a": ("1", "2", "3")}), resourceAttributes=ATTRIBUTES
        ),
        reviews.question(
            User(name="alice", extra=extra), resourceAttributes={**ATTRIBUTES, "name": "other"}
        ),
        reviews.question(
            User(name="alice", extra=extra), nonResourceAttributes={"path": "/", "verb": "get"}
        ),
    ]

    assert reviews.key(reviews.question(turned, resourceAttributes=ATTRIBUTES)) == reviews.key(same)
    assert len({reviews.key(spec) for spec in specs}) == len(specs)
