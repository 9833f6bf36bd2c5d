"""GitRepositories whose servers want to know who asks, or have to show who they are."""

import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncssh
import pytest
import trustme
from aiohttp import web
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.e2e.conftest import GIT_REPOSITORY, Space, condition
from tests.e2e.sources import content, ready, refused, replace, secret
from tests.fakes import gitserver
from tests.fakes.gitserver import GitServer
from tests.fakes.serving import certified, serving
from tests.fakes.sshserver import SshServer

pytestmark = pytest.mark.asyncio(loop_scope="session")

LOGIN = {"username": "ada", "password": "s3cret-horse"}


def named(name: str) -> dict[str, dict[str, str]]:
    return {"secretRef": {"name": name}}


async def test_password_is_sent_and_a_wrong_one_is_refused(space: Space, tmp_path: Path) -> None:
    async with GitServer(tmp_path, basic=("ada", "s3cret-horse")) as server:
        repository = server.repository("app")
        commit = repository.commit({"a": "1"})
        wrong = LOGIN | {"password": "wr0ng-horse"}
        secrets = {"right": LOGIN, "wrong": wrong}
        await space.world.apply(*(secret(space, name, data) for name, data in secrets.items()))
        named_sources = [space.source(repository, name, **named(name)) for name in secrets]

        await space.world.apply(space.source(repository, "nobody"), *named_sources)
        await space.ready(GIT_REPOSITORY, "right", revision=commit)
        others = await refused(space, "wrong", "nobody")
        await replace(space, "wrong", LOGIN)
        await ready(space, "wrong")

    assert {
        name: condition(obj, "Ready")["reason"] for name, obj in others.items()
    } == dict.fromkeys(others, "GitOperationFailed")
    assert "refused the credentials" in condition(others["wrong"], "Ready")["message"]
    assert "asks for credentials" in condition(others["nobody"], "Ready")["message"]
    assert "horse" not in str(others) + space.world.stack.log("source").read_text()


async def test_missing_secret_is_named_and_awaited(space: Space, tmp_path: Path) -> None:
    async with GitServer(tmp_path, basic=("ada", "s3cret-horse")) as server:
        repository = server.repository("app")
        repository.commit({"a": "1"})
        await space.world.apply(
            space.source(repository, **named("later")),
            space.source(repository, "proxied", proxySecretRef={"name": "no-proxy"}),
        )
        sources = await refused(space, "app", "proxied")
        await space.world.apply(secret(space, "later", LOGIN))
        await ready(space, "app")

    row = condition(sources["app"], "Ready")
    assert row["reason"] == "AuthenticationFailed"
    missing = f"'{space.namespace}/later'"
    assert row["message"] == (
        f"failed to get secret {missing}: Secret {missing} not found: create it, or correct its "
        "name"
    )
    assert condition(sources["app"], "FetchFailed")["status"] == "True"
    assert f"{space.namespace}/no-proxy" in condition(sources["proxied"], "Ready")["message"]


async def test_credentials_of_a_cloud_are_for_its_own_hosts_only(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a": "1"})

    await space.world.apply(space.source(repository, provider="azure"))
    source = await space.refused(GIT_REPOSITORY, saying="which provider azure is for")

    assert condition(source, "Ready")["reason"] == "InvalidProviderConfiguration"
    assert condition(source, "Stalled")["status"] == "True"


async def test_bearer_token_is_sent(space: Space, tmp_path: Path) -> None:
    async with GitServer(tmp_path, bearer="t0ken") as server:
        repository = server.repository("app")
        repository.commit({"a": "1"})
        await space.world.apply(secret(space, "token", {"bearerToken": "t0ken\n"}))

        await space.world.apply(space.source(repository, **named("token")))

        await space.ready(GIT_REPOSITORY)


async def test_ssh_key_opens_the_host_that_is_known(space: Space, tmp_path: Path) -> None:
    key, other = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    async with SshServer(tmp_path, authorized=[key]) as server:
        repository = server.repository("app")
        repository.commit({"a": "1"})
        identity = key.export_private_key().decode()
        host = f"[localhost]:{server.port} {other.export_public_key().decode()}"
        secrets: dict[str, dict[str, str | bytes]] = {
            "right": {"identity": identity, "known_hosts": server.known_hosts},
            "stranger": {
                "identity": other.export_private_key().decode(),
                "known_hosts": server.known_hosts,
            },
            "wrong-host": {"identity": identity, "known_hosts": host},
        }
        await space.world.apply(*(secret(space, name, data) for name, data in secrets.items()))

        await space.world.apply(
            *(space.source(repository, name, **named(name)) for name in secrets)
        )
        source = await space.ready(GIT_REPOSITORY, "right")
        others = await refused(space, "stranger", "wrong-host")

    assert await content(source) == {"a": "1"}
    said = {name: condition(obj, "Ready")["message"] for name, obj in others.items()}
    assert {condition(obj, "Ready")["reason"] for obj in others.values()} == {"GitOperationFailed"}
    assert "does not accept the key in 'identity'" in said["stranger"]
    assert "host key verification failed" in said["wrong-host"]


async def test_own_authority_and_client_certificate_are_used(space: Space, tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    context = certified(authority, "localhost", clients=ssl.CERT_REQUIRED)
    client = authority.issue_cert("ada@example.org")
    certificate = {
        "tls.crt": client.cert_chain_pems[0].bytes(),
        "tls.key": client.private_key_pem.bytes(),
    }
    ca = authority.cert_pem.bytes()
    async with GitServer(tmp_path, tls=context) as server:
        repository = server.repository("app")
        repository.commit({"a": "1"})
        secrets: dict[str, dict[str, str | bytes]] = {
            "right": {"ca.crt": ca, **certificate},
            "wrong-authority": {"ca.crt": other.cert_pem.bytes(), **certificate},
            "no-certificate": {"ca.crt": ca},
        }
        await space.world.apply(*(secret(space, name, data) for name, data in secrets.items()))

        await space.world.apply(
            *(space.source(repository, name, **named(name)) for name in secrets)
        )
        await ready(space, "right")
        others = await refused(space, "wrong-authority", "no-certificate")

    said = {name: condition(obj, "Ready")["message"] for name, obj in others.items()}
    assert "certificate verify failed" in said["wrong-authority"]
    assert repository.url.partition("/app")[0] in said["no-certificate"]


async def test_proxy_is_used_with_its_credentials(space: Space, tmp_path: Path) -> None:
    async with GitServer(tmp_path) as server, gitserver.proxy(basic=("ada", "pr0xy")) as proxy:
        repository = server.repository("app")
        repository.commit({"a": "1"})
        address = {"address": proxy.address, "username": "ada"}
        await space.world.apply(
            secret(space, "right", {**address, "password": "pr0xy"}),
            secret(space, "wrong", {**address, "password": "wrong"}),
        )

        await space.world.apply(
            *(
                space.source(repository, name, proxySecretRef={"name": name})
                for name in ("right", "wrong")
            )
        )
        await ready(space, "right")
        [source] = (await refused(space, "wrong")).values()

    assert any(server.base in target for target in proxy.targets)
    assert condition(source, "Ready")["reason"] == "GitOperationFailed"
    assert "proxy requires valid credentials" in condition(source, "Ready")["message"]


async def test_github_app_becomes_a_login(space: Space, tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    async with (
        github(key.public_key()) as api,
        GitServer(tmp_path, basic=("x-access-token", "ghs_t0ken")) as server,
    ):
        repository = server.repository("app")
        commit = repository.commit({"a": "1"})
        app: dict[str, str | bytes] = {
            "githubAppID": "77",
            "githubAppBaseURL": api,
            "githubAppPrivateKey": pem,
        }
        await space.world.apply(
            secret(space, "right", {**app, "githubAppInstallationID": "5"}),
            secret(space, "unknown", {**app, "githubAppInstallationID": "6"}),
        )
        names = ("right", "unknown")
        sources = [space.source(repository, n, provider="github", **named(n)) for n in names]

        await space.world.apply(*sources)
        await space.ready(GIT_REPOSITORY, "right", revision=commit)
        [unknown] = (await refused(space, "unknown")).values()

    assert "HTTP 404" in condition(unknown, "Ready")["message"]


@asynccontextmanager
async def github(public: rsa.RSAPublicKey) -> AsyncIterator[str]:
    """Stand in for the GitHub API of App 77, which is installed as 5."""

    async def token(request: web.Request) -> web.Response:
        signed, _, signature = request.headers["Authorization"][len("Bearer ") :].rpartition(".")
        public.verify(decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        if json.loads(decoded(signed.split(".")[1]))["iss"] != "77":
            return web.json_response({"message": "Bad credentials"}, status=401)
        if request.match_info["id"] != "5":
            return web.json_response({"message": "Not Found"}, status=404)
        end = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        return web.json_response({"token": "ghs_t0ken", "expires_at": end}, status=201)

    application = web.Application()
    application.router.add_post("/app/installations/{id}/access_tokens", token)
    async with serving(application) as port:
        yield f"http://127.0.0.1:{port}"


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
