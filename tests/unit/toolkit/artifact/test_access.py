"""The API server says who may upload; a few seconds of it are remembered, no token ever."""

import asyncio
from typing import Any

import pytest

from tests.fakes.reviews import Reviews
from toolkit.artifact.access import AUDIENCE, Access, BusyError, UnauthenticatedError, User
from toolkit.artifact.store import Owner
from toolkit.errors import AccessDeniedError
from toolkit.kube.errors import UnreachableError

OWNER = Owner(kind="ExternalArtifact", namespace="apps", name="rows")


@pytest.fixture
def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def access(reviews: Reviews, clock: list[float]) -> Access:
    return Access(reviews, now=lambda: clock[0])


async def test_a_token_is_reviewed_for_our_audience(access: Access, reviews: Reviews) -> None:
    user = await access.authenticate("bearer  abc.def")

    assert user == User(
        name="system:serviceaccount:apps:rows",
        uid="1",
        groups=("system:serviceaccounts",),
        extra={"pod": ["a"]},
    )
    assert reviews.asked[0]["spec"] == {"token": "abc.def", "audiences": [AUDIENCE]}


@pytest.mark.parametrize(
    "header",
    ["", "abc", "Basic abc", "Bearer", "Bearer a b", "Bearer a\n", f"Bearer {'a' * 16385}"],
)
async def test_what_is_no_token_is_not_asked_about(
    access: Access, reviews: Reviews, header: str
) -> None:
    with pytest.raises(UnauthenticatedError, match="send 'Authorization"):
        await access.authenticate(header)

    assert reviews.asked == []


@pytest.mark.parametrize("audiences", [None, [], ["https://kubernetes.default.svc"]])
async def test_a_yes_for_another_audience_is_a_no(
    access: Access, reviews: Reviews, audiences: list[str] | None
) -> None:
    reviews.audiences = audiences

    with pytest.raises(UnauthenticatedError):
        await access.authenticate("Bearer abc")


async def test_answers_are_remembered_for_seconds(
    access: Access, reviews: Reviews, clock: list[float]
) -> None:
    user = await access.authenticate("Bearer abc")
    await access.authorize(user, OWNER)
    reviews.allowed = reviews.authenticated = False
    clock[0] = 9.0
    await access.authorize(await access.authenticate("Bearer abc"), OWNER)
    assert len(reviews.asked) == 2

    clock[0] = 20.0

    with pytest.raises(UnauthenticatedError):
        await access.authenticate("Bearer abc")
    with pytest.raises(AccessDeniedError):
        await access.authorize(user, OWNER)


async def test_a_refusal_is_remembered_too(access: Access, reviews: Reviews) -> None:
    reviews.authenticated = False
    for _ in range(3):
        with pytest.raises(UnauthenticatedError):
            await access.authenticate("Bearer abc")

    assert len(reviews.asked) == 1


async def test_one_permission_is_not_another(access: Access, reviews: Reviews) -> None:
    user = await access.authenticate("Bearer abc")
    await access.authorize(user, OWNER)
    reviews.allowed = False

    for other in (
        Owner(kind="ExternalArtifact", namespace="apps", name="other"),
        Owner(kind="ExternalArtifact", namespace="infra", name="rows"),
    ):
        with pytest.raises(AccessDeniedError):
            await access.authorize(user, other)
    with pytest.raises(AccessDeniedError):
        await access.authorize(User(name=user.name, groups=("others",)), OWNER)
    assert reviews.asked[1]["spec"]["resourceAttributes"] == {
        "group": "source.toolkit.fluxcd.io",
        "resource": "externalartifacts",
        "subresource": "status",
        "verb": "update",
        "namespace": "apps",
        "name": "rows",
    }


async def test_no_token_is_kept(access: Access) -> None:
    await access.authenticate("Bearer very-secret")

    assert "very-secret" not in repr(vars(access._users))


async def test_a_flood_is_turned_away(access: Access, reviews: Reviews) -> None:
    reviews.release = asyncio.Event()
    flood = [asyncio.create_task(access.authenticate(f"Bearer {number}")) for number in range(200)]
    while len(reviews.asked) < 8:  # noqa: ASYNC110  # the fake counts, and tells nobody
        await asyncio.sleep(0)

    turned_away = [task for task in flood if task.done()]
    assert len(turned_away) == 200 - 128
    assert all(isinstance(task.exception(), BusyError) for task in turned_away)
    assert len(reviews.asked) == 8
    reviews.release.set()
    await asyncio.gather(*flood, return_exceptions=True)


async def test_an_api_server_that_does_not_answer_is_no_refusal() -> None:
    class Down:
        async def request(self, method: str, path: str, *, body: dict[str, Any]) -> dict[str, Any]:
            del method, path, body
            raise UnreachableError("no answer")

    with pytest.raises(UnreachableError):
        await Access(Down()).authenticate("Bearer abc")
