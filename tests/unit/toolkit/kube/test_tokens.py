"""Tokens of ServiceAccounts: who may be named, and what is told when it does not work."""

import asyncio

import pytest

from tests.fakes.accounts import FakeAccounts
from tests.fakes.issuer import verify
from toolkit.errors import StalledError, TransientError
from toolkit.kube.client import Client
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.remote.cloud.cache import TokenCache

ROLE = "arn:aws:iam::111122223333:role/team"


def tokens(client: Client, *, on: bool = True, default: str = "") -> ServiceAccountTokens:
    return ServiceAccountTokens(
        client, cache=TokenCache(), object_level=on, default_account=default
    )


async def test_account_proves_itself_to_one_audience() -> None:
    server = FakeAccounts()
    server.put("team", "app", **{"eks.amazonaws.com/role-arn": ROLE})

    async with server.running() as client:
        who = await tokens(client).identity("team", "app")
        assert who
        token = await who.token("sts.amazonaws.com")

    claims = verify(
        token,
        jwks=server.issuer.jwks(),
        issuer=server.issuer.url,
        audience="sts.amazonaws.com",
    )
    assert claims["sub"] == "system:serviceaccount:team:app"
    assert claims["aud"] == ["sts.amazonaws.com"]
    assert claims["exp"] - claims["iat"] == 600
    assert who.annotations == {"eks.amazonaws.com/role-arn": ROLE}


async def test_annotations_that_no_cloud_reads_do_not_make_another_identity() -> None:
    server = FakeAccounts()

    async with server.running() as client:
        server.put("team", "app", **{"eks.amazonaws.com/role-arn": ROLE, "note": "a"})
        first = await tokens(client).account("team", "app")
        server.put("team", "app", **{"eks.amazonaws.com/role-arn": ROLE, "note": "b"})
        same = await tokens(client).account("team", "app")
        server.put("team", "app", **{"eks.amazonaws.com/role-arn": f"{ROLE}2"})
        other = await tokens(client).account("team", "app")

    assert first.key == same.key
    assert first.key != other.key


async def test_objects_may_not_name_accounts_unless_the_operator_says_so() -> None:
    server = FakeAccounts()
    server.put("team", "app")

    async with server.running() as client:
        with pytest.raises(StalledError, match="ObjectLevelWorkloadIdentity=true") as caught:
            await tokens(client, on=False).identity("team", "app")

    assert caught.value.reason == "FeatureGateDisabled"
    assert not server.requests


async def test_object_that_names_nobody_is_this_process() -> None:
    server = FakeAccounts()

    async with server.running() as client:
        assert await tokens(client, on=False).identity("team", "") is None

    assert not server.requests


async def test_default_account_stands_for_those_that_name_none() -> None:
    server = FakeAccounts()
    server.put("team", "default")

    async with server.running() as client:
        who = await tokens(client, default="default").identity("team", "")

    assert str(who) == "ServiceAccount 'team/default'"


async def test_missing_account_is_named_with_the_remedy() -> None:
    server = FakeAccounts()

    async with server.running() as client:
        with pytest.raises(TransientError, match="'team/app' not found: create it") as caught:
            await tokens(client).identity("team", "app")

    assert caught.value.reason == "AuthenticationFailed"


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("get", "the right to get serviceaccounts"),
        ("create", "the right to create serviceaccounts/token"),
    ],
)
async def test_missing_right_of_the_controller_is_named(verb: str, message: str) -> None:
    server = FakeAccounts(forbidden={verb})
    server.put("team", "app")

    async with server.running() as client:
        with pytest.raises(TransientError, match=f"'team/app'.*{message}"):
            await (await tokens(client).account("team", "app")).token("x")


async def test_account_that_is_deleted_meanwhile_gets_no_token() -> None:
    server = FakeAccounts()
    server.put("team", "app")

    async with server.running() as client:
        who = await tokens(client).account("team", "app")
        server.accounts.clear()
        with pytest.raises(TransientError, match="no token for ServiceAccount 'team/app'"):
            await who.token("x")


async def test_account_that_is_replaced_meanwhile_gets_no_token() -> None:
    server = FakeAccounts(replaced_by="u2")
    server.put("team", "app", uid="u1")

    async with server.running() as client:
        who = await tokens(client).account("team", "app")
        with pytest.raises(TransientError, match="was replaced just now"):
            await who.token("x")


@pytest.mark.parametrize("name", ["../default", "..", "a/b", "%2e%2e"])
async def test_name_cannot_lead_to_another_namespace(name: str) -> None:
    server = FakeAccounts()

    async with server.running() as client:
        with pytest.raises(TransientError, match="invalid name"):
            await tokens(client).account("team", name)

    assert not server.requests


async def test_token_for_a_cluster_is_kept_for_the_same_audiences_only() -> None:
    server = FakeAccounts()
    server.put("team", "app")

    async with server.running() as client:
        made = tokens(client)
        who = await made.account("team", "app")
        same = await asyncio.gather(*(made.bearer(who, ("a",)) for _ in range(5)))
        other = await made.bearer(who, ("b",))

    assert len({bearer.token for bearer in same}) == 1
    assert other.token != same[0].token
    assert [spec["audiences"] for spec in server.tokens] == [["a"], ["b"]]
    assert {spec["expirationSeconds"] for spec in server.tokens} == {3600}


async def test_account_made_anew_gets_a_token_of_its_own() -> None:
    server = FakeAccounts()

    async with server.running() as client:
        made = tokens(client)
        found = []
        for uid in ("u1", "u2"):
            server.put("team", "app", uid=uid)
            found.append(await made.bearer(await made.account("team", "app"), ("a",)))

    assert found[0].token != found[1].token
