"""Signing in at a registry: what is shown to whom, and how seldom."""

import base64
import ssl
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme
from aiohttp import web

from tests.fakes import gitserver
from tests.fakes.registry import FakeRegistry
from tests.fakes.serving import certified
from tests.loopback.oci.bench import NAME, PLAIN
from toolkit.remote.http.http import Endpoint, Http, Proxy
from toolkit.remote.oci.oci import Descriptor, Repository
from toolkit.remote.oci.registry import Registry, RegistryAuthError, RegistryError, Tokens

LOGIN = ("ada", "hunter2")
ADA = replace(PLAIN, username="ada", password="hunter2")
BASIC = "Basic " + base64.b64encode(b"ada:hunter2").decode()


def shown(server: FakeRegistry, secret: str) -> list[str]:
    """Return the paths of the requests that carried a secret."""
    return [
        seen.path
        for seen in server.seen
        if secret in seen.authorization or secret.encode() in seen.body
    ]


async def test_basic_login_is_shown_when_it_is_asked_for(http: Http) -> None:
    async with FakeRegistry(basic=LOGIN) as server:
        pushed = server.push(NAME, "v1", [b"layer"])
        registry, repository = Registry(http, ADA), Repository.parse(server.url(NAME))

        found = await registry.resolve(repository, "v1")
        await registry.resolve(repository, "v1")

    assert found.digest == pushed["digest"]
    assert [seen.authorization for seen in server.seen] == ["", BASIC, BASIC]


async def test_wrong_login_is_an_authentication_failure(http: Http) -> None:
    async with FakeRegistry(basic=LOGIN) as server:
        registry = Registry(http, replace(ADA, password="wrong"))
        with pytest.raises(RegistryAuthError, match="refused the credentials") as caught:
            await registry.resolve(Repository.parse(server.url(NAME)), "v1")

    assert caught.value.reason == "AuthenticationFailed"
    assert "wrong" not in str(caught.value)
    assert len(server.seen) == 2


async def test_token_is_asked_for_once_and_the_password_shown_to_its_service_alone(
    http: Http,
) -> None:
    async with FakeRegistry(bearer=LOGIN) as server:
        server.push(NAME, "v1", [b"layer"])
        repository, tokens = Repository.parse(server.url(NAME)), Tokens()

        for _ in range(3):
            await Registry(http, ADA, tokens=tokens).resolve(repository, "v1")

    assert server.counts == {"HEAD manifests": 4, "GET token": 1}
    assert [urlsplit(path).path for path in shown(server, "Basic")] == ["/token"]
    query = parse_qs(urlsplit(shown(server, "Basic")[0]).query)
    assert query == {"service": ["localhost"], "scope": [f"repository:{NAME}:pull"]}


async def test_public_repository_needs_no_login(http: Http) -> None:
    async with FakeRegistry(bearer=LOGIN, anonymous=True) as server:
        pushed = server.push(NAME, "v1", [b"layer"])

        found = await Registry(http, PLAIN).resolve(Repository.parse(server.url(NAME)), "v1")

    assert found.digest == pushed["digest"]


async def test_missing_login_is_an_authentication_failure(http: Http) -> None:
    async with FakeRegistry(bearer=LOGIN) as server:
        with pytest.raises(RegistryAuthError, match="no token without credentials"):
            await Registry(http, PLAIN).resolve(Repository.parse(server.url(NAME)), "v1")


async def test_identity_token_is_exchanged(http: Http) -> None:
    async with FakeRegistry(bearer=LOGIN) as server:
        pushed = server.push(NAME, "v1", [b"layer"])
        server.identity_tokens.add("refresh-me")
        endpoint = replace(PLAIN, identity_token="refresh-me")

        found = await Registry(http, endpoint).resolve(Repository.parse(server.url(NAME)), "v1")

    assert found.digest == pushed["digest"]
    assert shown(server, "refresh-me") == ["/token"]


async def test_token_that_ended_is_replaced(http: Http) -> None:
    async with FakeRegistry(bearer=LOGIN) as server:
        server.push(NAME, "v1", [b"layer"])
        registry, repository = Registry(http, ADA), Repository.parse(server.url(NAME))
        await registry.resolve(repository, "v1")
        server.tokens.clear()

        await registry.resolve(repository, "v1")

    assert server.counts["GET token"] == 2


async def test_token_is_replaced_before_it_ends(http: Http) -> None:
    now = [0.0]
    async with FakeRegistry(bearer=LOGIN) as server:
        server.push(NAME, "v1", [b"layer"])
        registry = Registry(http, ADA, tokens=Tokens(lambda: now[0]))
        repository = Repository.parse(server.url(NAME))
        await registry.resolve(repository, "v1")
        now[0] = server.token_seconds - 1
        server.counts.clear()

        await registry.resolve(repository, "v1")

    assert server.counts == {"GET token": 1, "HEAD manifests": 1}


async def test_registry_that_refuses_every_token_is_given_up(http: Http) -> None:
    async with FakeRegistry(bearer=LOGIN) as server:
        server.tokens = type("Forgetful", (set,), {"add": lambda *_: None})()
        with pytest.raises(RegistryAuthError):
            await Registry(http, ADA).resolve(Repository.parse(server.url(NAME)), "v1")

    assert server.counts == {"HEAD manifests": 2, "GET token": 1}


async def test_given_token_is_shown_and_not_replaced(http: Http) -> None:
    async with FakeRegistry(bearer=LOGIN) as server:
        server.push(NAME, "v1", [b"layer"])
        server.tokens.add("given")
        registry = Registry(http, replace(PLAIN, bearer_token="given"))
        repository = Repository.parse(server.url(NAME))
        await registry.resolve(repository, "v1")
        server.tokens.clear()

        with pytest.raises(RegistryAuthError):
            await registry.resolve(repository, "v1")

    assert server.counts["GET token"] == 0


async def test_endless_token_is_cut_off(http: Http) -> None:
    async with FakeRegistry(bearer=LOGIN) as server:
        server.faults.endless = "token"
        with pytest.raises(RegistryError, match="more than"):
            await Registry(http, ADA).resolve(Repository.parse(server.url(NAME)), "v1")


@pytest.mark.parametrize(
    "answer", ["", "[]", "{}", '{"token": 1}', '{"token": "a\\r\\nX: 1"}', "[" * 100_000]
)
async def test_answer_that_is_no_token_is_refused(http: Http, answer: str) -> None:
    async with FakeRegistry(bearer=LOGIN) as server:

        async def nonsense(_: web.Request, kind: str) -> web.StreamResponse | None:
            return web.Response(text=answer) if kind == "token" else None

        server.faults.hook = nonsense
        with pytest.raises(RegistryError):
            await Registry(http, ADA).resolve(Repository.parse(server.url(NAME)), "v1")


async def test_insecure_registry_cannot_send_credentials_to_another_host(
    http: Http, server_tls: ssl.SSLContext, ca: bytes
) -> None:
    async with (
        FakeRegistry(tls=server_tls, bearer=LOGIN) as other,
        FakeRegistry(bearer=LOGIN, host="127.0.0.1") as server,
    ):
        server.faults.realm = f"{other.base}/token"
        with pytest.raises(RegistryAuthError, match="insecure registry"):
            await Registry(http, replace(ADA, ca=ca)).resolve(
                Repository.parse(server.url(NAME)), "v1"
            )

    assert other.seen == []


async def test_token_service_without_tls_is_refused(
    http: Http, server_tls: ssl.SSLContext, ca: bytes
) -> None:
    async with (
        FakeRegistry(bearer=LOGIN) as other,
        FakeRegistry(tls=server_tls, bearer=LOGIN) as server,
    ):
        server.faults.realm = f"{other.base}/token"
        endpoint = Endpoint(username="ada", password="hunter2", ca=ca)
        with pytest.raises(RegistryAuthError, match="without TLS"):
            await Registry(http, endpoint).resolve(Repository.parse(server.url(NAME)), "v1")

    assert other.seen == []


async def test_public_registry_cannot_name_a_token_service_at_a_private_address(
    http: Http, server_tls: ssl.SSLContext, ca: bytes
) -> None:
    # Behind the proxy is the internet: its host names count as public.
    async with (
        gitserver.proxy() as proxy,
        FakeRegistry(tls=server_tls, bearer=LOGIN) as inside,
        FakeRegistry(tls=server_tls, bearer=LOGIN, host="registry.example.com") as server,
    ):
        server.faults.realm = f"https://127.0.0.1:{inside.host.rpartition(':')[2]}/token"
        endpoint = Endpoint(
            username="ada", password="hunter2", ca=ca, proxy=Proxy(address=proxy.address)
        )
        with pytest.raises(RegistryError, match="private address"):
            await Registry(http, endpoint).resolve(Repository.parse(server.url(NAME)), "v1")

    assert len(server.seen) == 1
    assert inside.seen == []


@pytest.mark.parametrize(
    "realm",
    ["ftp://localhost/token", "//token", "https://", "http://u:p@localhost/t", "https://[::1"],
)
async def test_token_service_that_is_no_url_is_refused(http: Http, realm: str) -> None:
    async with FakeRegistry(bearer=LOGIN) as server:
        server.faults.realm = realm
        with pytest.raises(RegistryError):
            await Registry(http, ADA).resolve(Repository.parse(server.url(NAME)), "v1")

    assert shown(server, "Basic") == []


async def test_blobs_elsewhere_are_fetched_without_credentials(http: Http, tmp_path: Path) -> None:
    async with FakeRegistry() as elsewhere, FakeRegistry(bearer=LOGIN) as server:
        blob = server.put_blob(b"layer")
        elsewhere.put_blob(b"layer")
        server.faults.redirect["blobs"] = elsewhere.base
        descriptor = Descriptor(media_type="", digest=blob["digest"], size=blob["size"])

        await Registry(http, ADA).blob(
            Repository.parse(server.url(NAME)), descriptor, tmp_path / "blob", limit=100
        )

    assert (tmp_path / "blob").read_bytes() == b"layer"
    assert [seen.authorization for seen in elsewhere.seen] == [""]


@pytest.mark.parametrize("demanding", [LOGIN, None])
async def test_challenge_of_where_a_blob_lies_is_not_answered(
    http: Http, demanding: tuple[str, str] | None
) -> None:
    async with FakeRegistry(bearer=LOGIN) as elsewhere, FakeRegistry(bearer=demanding) as server:
        blob = server.put_blob(b"layer")
        elsewhere.put_blob(b"layer")
        server.faults.redirect["blobs"] = elsewhere.base
        descriptor = Descriptor(media_type="", digest=blob["digest"], size=blob["size"])

        with pytest.raises(RegistryAuthError):
            await Registry(http, ADA).read_blob(
                Repository.parse(server.url(NAME)), descriptor, limit=100
            )

    assert [seen.path for seen in elsewhere.seen] == [f"/v2/{NAME}/blobs/{blob['digest']}"]


async def test_client_certificate_is_not_shown_to_a_token_service_elsewhere(
    http: Http, authority: trustme.CA, ca: bytes
) -> None:
    asking = certified(authority, "localhost", clients=ssl.CERT_OPTIONAL)
    certificates: dict[str, bool] = {}

    async def look(request: web.Request, kind: str) -> None:
        assert request.transport is not None
        certificates[kind] = bool(request.transport.get_extra_info("peercert"))

    ours = authority.issue_cert("ada@example.com")
    endpoint = Endpoint(
        username="ada",
        password="hunter2",
        ca=ca,
        client_cert=ours.cert_chain_pems[0].bytes(),
        client_key=ours.private_key_pem.bytes(),
    )
    async with (
        FakeRegistry(tls=asking, bearer=LOGIN) as service,
        FakeRegistry(tls=asking, bearer=LOGIN) as server,
    ):
        server.push(NAME, "v1", [b"layer"])
        server.tokens = service.tokens
        server.faults.realm = f"{service.base}/token"
        server.faults.hook = service.faults.hook = look

        await Registry(http, endpoint).resolve(Repository.parse(server.url(NAME)), "v1")

    assert certificates == {"manifests": True, "token": False}


@pytest.mark.parametrize(
    ("suggested", "asked"),
    [
        ("repository:team/app:pull,push,delete", "repository:team/app:pull"),
        ("repository:mirror/team/app:pull", "repository:mirror/team/app:pull"),
        ("repository:victim/secrets:pull", "repository:team/app:pull"),
        ("registry:catalog:*", "repository:team/app:pull"),
        ("", "repository:team/app:pull"),
    ],
)
async def test_no_more_is_asked_for_than_to_pull(http: Http, suggested: str, asked: str) -> None:
    async with FakeRegistry(bearer=LOGIN) as server:
        server.push(NAME, "v1", [b"layer"])
        server.faults.scope = suggested
        await Registry(http, ADA).resolve(Repository.parse(server.url(NAME)), "v1")

    token = next(seen for seen in server.seen if seen.path.startswith("/token"))
    assert parse_qs(urlsplit(token.path).query)["scope"] == [asked]
