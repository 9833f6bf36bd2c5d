"""An automation pushes only with credentials that its author may use when it pushes."""

from typing import Any

import msgspec
import pytest

from controllers.image.pushing import Pushing
from crds.image_automation import ImageUpdateAutomation
from crds.source import GitRepository
from tests.fakes import imagespecs
from toolkit.errors import WaitingError
from toolkit.kube.errors import UnreachableError
from toolkit.objects import Json
from toolkit.policy.authorship import AUTHOR
from toolkit.policy.tenancy import Installation

ALICE = '{"user": "alice", "groups": ["dev"]}'
ROBOT = '{"user": "system:serviceaccount:team:robot"}'
DEPLOY = {"secretRef": {"name": "deploy"}}


class Api:
    """Allows what it is told, and remembers what it was asked."""

    def __init__(self, *allowed: tuple[str, str, str]) -> None:
        self.allowed = allowed
        self.asked: list[Json] = []
        self.down = False

    async def request(self, method: str, path: str, *, body: Json) -> Json:
        assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
        if self.down:
            raise UnreachableError("the API server is away")
        self.asked.append(body["spec"])
        of = body["spec"]["resourceAttributes"]
        assert of["namespace"] == "team"
        who = {body["spec"]["user"], *body["spec"]["groups"]}
        allowed = any(
            user in who and (verb, name) == (of["verb"], of["name"])
            for user, verb, name in self.allowed
        )
        return {"status": {"allowed": allowed}}


async def pushed(api: Api, note: str | None, spec: Json, *, namespace: str = "team") -> None:
    annotations = {AUTHOR: note} if note is not None else {}
    obj = {
        "metadata": {"name": "app", "namespace": "team", "annotations": annotations},
        "spec": imagespecs.RIGHT["ImageUpdateAutomation"],
    }
    source: Any = {
        "metadata": {"name": "fleet", "namespace": namespace},
        "spec": {"interval": "1m", "url": "https://git.example/fleet", **spec},
    }
    await Pushing(api=api, installation=Installation(namespace="penstock-system")).require(
        msgspec.convert(obj, ImageUpdateAutomation), msgspec.convert(source, GitRepository)
    )


@pytest.mark.parametrize("spec", [DEPLOY, {"serviceAccountName": "cloud"}, DEPLOY | {"x": 1}])
async def test_credentials_that_came_later_are_not_the_authors(spec: Json) -> None:
    with pytest.raises(WaitingError, match="user 'alice', who has written this object") as refused:
        await pushed(Api(), ALICE, spec)

    assert refused.value.reason == "AccessDenied"
    assert "deploy" not in str(refused.value)
    assert "cloud" not in str(refused.value)


@pytest.mark.parametrize(
    "allowed", [("alice", "get", "deploy"), ("alice", "use", "deploy"), ("dev", "use", "deploy")]
)
async def test_credentials_that_the_author_may_use_are_used(allowed: tuple[str, str, str]) -> None:
    await pushed(Api(allowed), ALICE, DEPLOY)


async def test_every_one_of_the_credentials_counts() -> None:
    spec = DEPLOY | {"proxySecretRef": {"name": "proxy"}}

    with pytest.raises(WaitingError):
        await pushed(Api(("alice", "get", "deploy")), ALICE, spec)


async def test_an_account_may_be_itself() -> None:
    await pushed(Api(), ROBOT, {"serviceAccountName": "robot"})


async def test_a_malformed_record_may_use_nothing() -> None:
    api = Api(("", "get", "deploy"))

    with pytest.raises(WaitingError):
        await pushed(api, "{", DEPLOY)
    await pushed(api, "{", {})

    assert api.asked == []


async def test_the_rest_is_not_asked_about() -> None:
    api = Api()

    await pushed(api, None, DEPLOY)
    await pushed(api, ALICE, {})
    await pushed(api, ALICE, DEPLOY, namespace="platform")

    assert api.asked == []


async def test_without_an_answer_nothing_is_pushed() -> None:
    api = Api(("alice", "get", "deploy"))
    api.down = True

    with pytest.raises(UnreachableError):
        await pushed(api, ALICE, DEPLOY)
