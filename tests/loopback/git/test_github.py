"""Tokens of a GitHub App, from a server that checks the App's signature as GitHub does."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.fakes import gitserver
from tests.fakes.githubapp import KEY, SECRET, Clock, FakeGitHub, pem
from tests.fakes.serving import serving
from toolkit.errors import PenstockError
from toolkit.remote import rsakeys
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.git.auth import Proxy
from toolkit.remote.git.github import GitHubApp, GitHubTokens
from toolkit.remote.http.http import Http

OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
DIRECT = Endpoint(plain_http=True)
TENANT = Endpoint(plain_http=True, private=False)


def through(proxy: Proxy | None) -> Endpoint:
    return Endpoint(plain_http=True, proxy=proxy)


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    async with Http() as http:
        yield http


@pytest.fixture
async def github() -> AsyncIterator[FakeGitHub]:
    fake = FakeGitHub(Clock())
    async with serving(fake.application()) as port:
        fake.base = f"http://127.0.0.1:{port}"
        yield fake


def app(github: FakeGitHub, **changes: bytes) -> GitHubApp:
    data: dict[str, bytes] = SECRET | {"githubAppBaseURL": github.base.encode()} | changes
    return GitHubApp.from_secret({key: value for key, value in data.items() if value})


async def test_app_becomes_a_login(http: Http, github: FakeGitHub) -> None:
    auth = await GitHubTokens(http, github.clock).auth(app(github), way=DIRECT, timeout=10)

    assert (auth.username, auth.password) == ("x-access-token", "ghs_5_1")


@pytest.mark.parametrize(("owner", "token"), [(b"pipes", "ghs_5_2"), (b"ada", "ghs_6_3")])
async def test_installation_is_found_by_its_owner(
    http: Http, github: FakeGitHub, owner: bytes, token: str
) -> None:
    wanted = app(github, githubAppInstallationID=b"", githubAppInstallationOwner=owner)

    auth = await GitHubTokens(http, github.clock).auth(wanted, way=DIRECT, timeout=10)

    assert auth.password == token


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]"])
@pytest.mark.parametrize("named", ["api", "proxy"])
async def test_metadata_service_is_neither_the_api_nor_its_proxy(
    http: Http, github: FakeGitHub, host: str, named: str
) -> None:
    address = f"http://{host}".encode()
    asked = app(github, githubAppBaseURL=address) if named == "api" else app(github)
    proxy = Proxy(address=address.decode()) if named == "proxy" else None

    with pytest.raises(PenstockError, match="metadata service"):
        await GitHubTokens(http, github.clock).auth(asked, way=through(proxy), timeout=10)

    assert github.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254"])
async def test_tenants_app_does_not_lead_to_private_addresses(
    http: Http, github: FakeGitHub, host: str
) -> None:
    inside = app(github, githubAppBaseURL=github.base.replace("127.0.0.1", host).encode())

    with pytest.raises(PenstockError, match="a private address") as caught:
        await GitHubTokens(http, github.clock).auth(inside, way=TENANT, timeout=10)

    assert github.requests == []
    assert caught.value.reason == "GitOperationFailed"


async def test_tenants_app_is_not_asked_about_through_a_proxy_inside(http: Http) -> None:
    async with gitserver.proxy() as running:
        way = Endpoint(proxy=Proxy(address=running.address), private=False)

        with pytest.raises(PenstockError, match="a private address"):
            await GitHubTokens(http).auth(GitHubApp.from_secret(SECRET), way=way, timeout=10)

    assert running.heads == []


async def test_clear_text_is_asked_only_where_that_is_allowed(
    http: Http, github: FakeGitHub
) -> None:
    with pytest.raises(PenstockError, match="plain HTTP"):
        await GitHubTokens(http, github.clock).auth(app(github), way=Endpoint(), timeout=10)

    assert github.requests == []


async def test_a_token_is_only_for_those_who_ask_the_same_way(
    http: Http, github: FakeGitHub
) -> None:
    """Who has the key too may choose a proxy and a CA, and give out tokens of their own there."""
    tokens = GitHubTokens(http, github.clock)
    first = await tokens.auth(app(github), way=DIRECT, timeout=10)

    async with gitserver.proxy() as running:
        way = through(Proxy(address=running.address))
        second = await tokens.auth(app(github), way=way, timeout=10)

    assert first.password != second.password


async def test_token_is_kept_until_shortly_before_its_end(http: Http, github: FakeGitHub) -> None:
    tokens = GitHubTokens(http, github.clock)
    first = await tokens.auth(app(github), way=DIRECT, timeout=10)
    github.clock.now += timedelta(minutes=50)
    second = await tokens.auth(app(github), way=DIRECT, timeout=10)
    github.clock.now += timedelta(minutes=6)

    third = await tokens.auth(app(github), way=DIRECT, timeout=10)

    assert first.password == second.password
    assert third.password != second.password
    assert len(github.requests) == 2


async def test_refused_token_is_dropped_unless_it_is_new(http: Http, github: FakeGitHub) -> None:
    tokens = GitHubTokens(http, github.clock)
    first = await tokens.auth(app(github), way=DIRECT, timeout=10)
    while_new = tokens.drop(first)
    github.clock.now += timedelta(minutes=1)

    later = tokens.drop(first)
    second = await tokens.auth(app(github), way=DIRECT, timeout=10)

    assert (while_new, later) == (False, True)
    assert second.password != first.password
    assert not tokens.drop(first)


async def test_many_repositories_of_one_app_ask_for_one_token(
    http: Http, github: FakeGitHub
) -> None:
    tokens = GitHubTokens(http, github.clock)

    found = await asyncio.gather(
        *(tokens.auth(app(github), way=DIRECT, timeout=10) for _ in range(20))
    )

    assert len({auth.password for auth in found}) == 1
    assert len(github.requests) == 1


async def test_another_key_does_not_get_the_token_of_the_first(
    http: Http, github: FakeGitHub
) -> None:
    tokens = GitHubTokens(http, github.clock)
    await tokens.auth(app(github), way=DIRECT, timeout=10)

    with pytest.raises(PenstockError, match="refused the App: HTTP 401") as caught:
        await tokens.auth(app(github, githubAppPrivateKey=pem(OTHER)), way=DIRECT, timeout=10)

    assert caught.value.reason == "AuthenticationFailed"


@pytest.mark.parametrize(
    "changes",
    [
        {"githubAppInstallationID": b"9"},
        {"githubAppInstallationID": b"", "githubAppInstallationOwner": b"stranger"},
    ],
)
async def test_unknown_installation_is_an_authentication_failure(
    http: Http, github: FakeGitHub, changes: dict[str, bytes]
) -> None:
    with pytest.raises(PenstockError) as caught:
        await GitHubTokens(http, github.clock).auth(app(github, **changes), way=DIRECT, timeout=10)

    assert caught.value.reason == "AuthenticationFailed"


async def test_api_is_reached_through_the_proxy(http: Http, github: FakeGitHub) -> None:
    async with gitserver.proxy(basic=("ada", "hunter2")) as running:
        proxy = Proxy(address=running.address, username="ada", password="hunter2")

        auth = await GitHubTokens(http, github.clock).auth(
            app(github), way=through(proxy), timeout=10
        )

    assert auth.proxy == proxy
    assert len(running.targets) == 1


async def test_api_that_is_down_is_reported(http: Http, github: FakeGitHub) -> None:
    wanted = app(github, githubAppBaseURL=b"http://127.0.0.1:1/api/v3/")

    with pytest.raises(PenstockError, match="cannot reach the GitHub API at") as caught:
        await GitHubTokens(http, github.clock).auth(wanted, way=DIRECT, timeout=10)

    assert caught.value.reason == "GitOperationFailed"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"githubAppID": b""}, "'githubAppID'"),
        ({"githubAppPrivateKey": b""}, "'githubAppPrivateKey'"),
        ({"githubAppInstallationID": b""}, "'githubAppInstallationOwner'"),
        ({"githubAppInstallationID": b"5/../6"}, "'githubAppInstallationID'"),
        ({"githubAppBaseURL": b"ftp://x"}, "'githubAppBaseURL'"),
    ],
)
def test_wrong_secret_is_refused_with_the_key_in_question(
    changes: dict[str, bytes], named: str
) -> None:
    data = {key: value for key, value in (SECRET | changes).items() if value}

    with pytest.raises(PenstockError, match=named) as caught:
        GitHubApp.from_secret(data)

    assert caught.value.reason == "AuthenticationFailed"


async def test_key_that_takes_long_to_check_is_refused(http: Http, github: FakeGitHub) -> None:
    key = pem(KEY).replace(b"-----END", b"A" * rsakeys.LONGEST + b"\n-----END")

    with pytest.raises(PenstockError, match=r"'githubAppPrivateKey' .* is longer than"):
        await GitHubTokens(http, github.clock).auth(
            app(github, githubAppPrivateKey=key), way=DIRECT, timeout=10
        )


@pytest.mark.parametrize("key", [b"junk", pem(ec.generate_private_key(ec.SECP256R1()))])
async def test_key_that_cannot_sign_is_named(http: Http, github: FakeGitHub, key: bytes) -> None:
    with pytest.raises(PenstockError, match="'githubAppPrivateKey'"):
        await GitHubTokens(http, github.clock).auth(
            app(github, githubAppPrivateKey=key), way=DIRECT, timeout=10
        )


def test_nothing_secret_is_printed() -> None:
    assert "PRIVATE" not in repr(GitHubApp.from_secret(SECRET))
    assert GitHubApp.from_secret(SECRET).api == "https://api.github.com"


async def test_proxy_does_not_get_to_see_the_signature(http: Http, github: FakeGitHub) -> None:
    secure = app(github, githubAppBaseURL=github.base.replace("http:", "https:").encode())
    async with gitserver.proxy() as running:
        with pytest.raises(PenstockError, match="cannot reach"):
            await GitHubTokens(http, github.clock).auth(
                secure, way=through(Proxy(address=running.address)), timeout=10
            )

    [head] = running.heads
    assert head.startswith(b"CONNECT")
    assert b"Authorization" not in head
