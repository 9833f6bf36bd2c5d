"""What requesters may do is asked for, remembered for seconds, and denied when nobody answers."""

from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from toolkit.kube.client import Client
from toolkit.kube.config import ClusterConfig
from toolkit.kube.errors import ApiError
from webhooks.authorizer import SubjectAccessReviews
from webhooks.request import User

ALICE = User(name="alice", groups=("dev",), extra={"k": ("v",)})
ASKED = {"verb": "use", "group": "", "resource": "serviceaccounts", "namespace": "apps"}


class Judge:
    """Answers SubjectAccessReviews."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.allowed: object = True
        self.status = 201

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((await request.json())["spec"])
        return web.json_response({"status": {"allowed": self.allowed}}, status=self.status)


async def ask(judge: Judge, *users: User) -> list[bool]:
    app = web.Application()
    app.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", judge.answer)
    async with (
        TestServer(app) as server,
        Client.open(ClusterConfig(server=str(server.make_url("")).rstrip("/"))) as client,
    ):
        reviews = SubjectAccessReviews(client)
        return [await reviews.allowed(user, **ASKED, name="deployer") for user in users]


async def test_the_question_is_about_the_requester() -> None:
    judge = Judge()

    assert await ask(judge, ALICE) == [True]

    (spec,) = judge.asked
    assert (spec["user"], spec["groups"], spec["extra"]) == ("alice", ["dev"], {"k": ["v"]})
    assert spec["resourceAttributes"] == {**ASKED, "name": "deployer", "subresource": ""}


async def test_an_answer_is_kept_for_the_same_question_only() -> None:
    judge = Judge()
    other = User(name="alice", groups=("dev", "ops"), extra={"k": ("v",)})

    assert await ask(judge, ALICE, ALICE, other) == [True, True, True]

    assert len(judge.asked) == 2


@pytest.mark.parametrize("answer", [False, None, "true", 1])
async def test_only_true_means_yes(answer: object) -> None:
    judge = Judge()
    judge.allowed = answer

    assert await ask(judge, ALICE) == [False]


async def test_an_error_is_no_answer() -> None:
    judge = Judge()
    judge.status = 500

    with pytest.raises(ApiError):
        await ask(judge, ALICE)
