"""What an account says about pulling, and what is told when it cannot."""

import pytest

from controllers.access.accounts import MAX_PULL_SECRETS, Accounts
from tests.fakes.apiserver import FakeApiServer
from toolkit.errors import TransientError
from toolkit.kube.client import Client
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.remote.cloud.cache import TokenCache


def fake() -> FakeApiServer:
    server = FakeApiServer()
    server.kinds["", "v1", "serviceaccounts"] = "ServiceAccount"
    return server


def accounts(client: Client) -> Accounts:
    return Accounts(client=client, tokens=ServiceAccountTokens(client, cache=TokenCache()))


async def test_pull_secrets_come_in_their_order() -> None:
    server = fake()
    server.put("serviceaccounts", "puller", imagePullSecrets=[{"name": "b"}, {}, {"name": "a"}])

    async with server.running() as client:
        assert await accounts(client).pull_secrets("default", "puller") == ("b", "a")


async def test_account_with_too_many_pull_secrets_is_refused() -> None:
    server = fake()
    many = [{"name": f"pull-{number}"} for number in range(MAX_PULL_SECRETS + 1)]
    server.put("serviceaccounts", "puller", imagePullSecrets=many)

    async with server.running() as client:
        with pytest.raises(TransientError, match=r"33 imagePullSecrets.*spec\.secretRef"):
            await accounts(client).pull_secrets("default", "puller")


async def test_missing_account_is_told() -> None:
    async with fake().running() as client:
        with pytest.raises(TransientError, match="'default/puller' not found"):
            await accounts(client).pull_secrets("default", "puller")


async def test_missing_right_is_named() -> None:
    server = fake()
    server.put("serviceaccounts", "puller")
    server.fail("GET", "serviceaccounts", 403)

    async with server.running() as client:
        with pytest.raises(TransientError, match="the right to get serviceaccounts") as caught:
            await accounts(client).pull_secrets("default", "puller")

    assert caught.value.reason == "AuthenticationFailed"
