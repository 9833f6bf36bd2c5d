"""Who is trusted over HTTP, and who is told what."""

import socket
import ssl
from pathlib import Path

import pytest
import trustme

from tests.fakes.gitserver import GitServer
from toolkit.errors import PenstockError
from toolkit.remote.git.git import GitAuth, GitClient, GitReference, Resolved

MAIN = GitReference(branch="main")
ADA = GitAuth(username="ada", password="hunter2")


async def resolve(client: GitClient, url: str, auth: GitAuth | None = None) -> Resolved:
    return await client.resolve(url, MAIN, auth or GitAuth(), timeout=10, flow="team")


@pytest.mark.parametrize(
    ("basic", "bearer", "auth"),
    [
        (("ada", "hunter2"), "", ADA),
        (("ada", "pä:ss"), "", GitAuth(username="ada", password="pä:ss")),
        (None, "t0ken", GitAuth(bearer_token="t0ken")),
    ],
)
async def test_credentials_are_accepted(
    client: GitClient,
    tmp_path: Path,
    out: Path,
    *,
    basic: tuple[str, str] | None,
    bearer: str,
    auth: GitAuth,
) -> None:
    async with GitServer(tmp_path / "server", basic=basic, bearer=bearer) as server:
        repository = server.repository("pipes")
        commit = repository.commit({"a": "1"})

        resolved = await resolve(client, repository.url, auth)
        checkout = await client.checkout(
            repository.url, resolved, auth, out, timeout=10, flow="team"
        )

    assert checkout.commit == commit
    assert (out / "a").read_text() == "1"


async def test_credentials_in_the_url_are_accepted_and_never_shown(
    client: GitClient, tmp_path: Path
) -> None:
    async with GitServer(tmp_path / "server", basic=("ada", "hunter2")) as server:
        repository = server.repository("pipes")
        repository.commit({"a": "1"})
        good = repository.url.replace("http://", "http://ada:hunter2@")
        bad = repository.url.replace("http://", "http://ada:hunter3@")

        await resolve(client, good)
        with pytest.raises(PenstockError, match="refused the credentials") as caught:
            await resolve(client, bad)

    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize(
    ("auth", "why"),
    [
        (GitAuth(), "asks for credentials"),
        (GitAuth(username="ada", password="wrong"), "refused the credentials"),
        (GitAuth(bearer_token="wrong"), "refused the credentials"),
    ],
)
async def test_refused_credentials_are_an_authentication_failure(
    client: GitClient, tmp_path: Path, auth: GitAuth, why: str
) -> None:
    async with GitServer(tmp_path / "server", basic=("ada", "hunter2")) as server:
        repository = server.repository("pipes")

        with pytest.raises(PenstockError, match=why) as caught:
            await resolve(client, repository.url, auth)

    assert caught.value.reason == "AuthenticationFailed"
    assert "wrong" not in str(caught.value)


async def test_server_learns_who_asks(client: GitClient, server: GitServer) -> None:
    repository = server.repository("pipes")
    repository.commit({"a": "1"})

    await resolve(client, repository.url)

    assert {seen.headers["User-Agent"] for seen in server.seen} == {"penstock (git)"}


async def test_ca_in_the_secret_is_trusted(
    client: GitClient, tls_server: GitServer, ca: bytes
) -> None:
    repository = tls_server.repository("pipes")
    commit = repository.commit({"a": "1"})

    resolved = await resolve(client, repository.url, GitAuth(ca=ca))

    assert resolved.commit == commit


@pytest.mark.parametrize("ca", [None, trustme.CA().cert_pem.bytes()], ids=["system", "other"])
async def test_server_of_another_authority_is_refused(
    client: GitClient, tls_server: GitServer, ca: bytes | None
) -> None:
    repository = tls_server.repository("pipes")

    with pytest.raises(PenstockError, match="certificate verify failed"):
        await resolve(client, repository.url, GitAuth(ca=ca))

    assert tls_server.seen == []


async def test_certificate_for_another_name_is_refused(
    client: GitClient, tmp_path: Path, server_tls: ssl.SSLContext, ca: bytes
) -> None:
    async with GitServer(tmp_path / "server", tls=server_tls, host="127.0.0.1") as server:
        with pytest.raises(PenstockError, match=r"IP address mismatch|doesn't match"):
            await resolve(client, server.repository("pipes").url, GitAuth(ca=ca))


async def test_client_certificate_is_shown(
    client: GitClient,
    tmp_path: Path,
    own_certificate: GitAuth,
    server_tls: ssl.SSLContext,
    ca: bytes,
) -> None:
    async with GitServer(tmp_path / "server", tls=server_tls) as server:
        repository = server.repository("pipes")
        commit = repository.commit({"a": "1"})

        resolved = await resolve(client, repository.url, own_certificate)
        with pytest.raises(PenstockError, match="cannot fetch from"):
            await resolve(client, repository.url, GitAuth(ca=ca))

    assert resolved.commit == commit


@pytest.mark.parametrize(
    ("auth", "named"),
    [
        (GitAuth(ca=b"not pem"), r"'ca\.crt'"),
        (GitAuth(ca=b"\xff"), r"'ca\.crt'"),
        (GitAuth(client_cert=b"x", client_key=b"y"), r"'tls\.crt' and 'tls\.key'"),
    ],
)
async def test_certificates_that_are_none_are_named(
    client: GitClient, tls_server: GitServer, auth: GitAuth, named: str
) -> None:
    with pytest.raises(PenstockError, match=named) as caught:
        await resolve(client, tls_server.repository("pipes").url, auth)

    assert caught.value.reason == "AuthenticationFailed"


async def test_renamed_repository_is_followed_with_credentials(
    client: GitClient, tmp_path: Path, out: Path
) -> None:
    async with GitServer(tmp_path / "server", basic=("ada", "hunter2")) as server:
        repository = server.repository("new")
        repository.commit({"a": "1"})
        server.faults.moved = ("/old.git", "/new.git")
        url = f"{server.base}/old.git"

        resolved = await resolve(client, url, ADA)
        await client.checkout(url, resolved, ADA, out, timeout=10, flow="team")

    assert (out / "a").read_text() == "1"
    assert all(seen.authorization for seen in server.seen)


async def test_redirect_to_another_server_is_followed_without_credentials(
    client: GitClient, tmp_path: Path, server: GitServer, out: Path
) -> None:
    repository = server.repository("pipes")
    repository.commit({"a": "1"})
    async with GitServer(tmp_path / "old", basic=("ada", "hunter2")) as old:
        old.faults.redirect = server.base
        url = repository.url.replace(server.base, old.base)

        resolved = await resolve(client, url, ADA)
        await client.checkout(url, resolved, ADA, out, timeout=10, flow="team")

    assert (out / "a").read_text() == "1"
    assert {seen.authorization for seen in server.seen} == {""}
    assert all(seen.authorization for seen in old.seen)


async def test_redirect_from_https_to_http_is_refused(
    client: GitClient, tls_server: GitServer, server: GitServer, ca: bytes
) -> None:
    repository = tls_server.repository("pipes")
    tls_server.faults.redirect = server.base

    with pytest.raises(PenstockError, match="from https to http"):
        await resolve(client, repository.url, GitAuth(ca=ca))

    assert server.seen == []


async def test_redirect_in_a_circle_ends(client: GitClient, server: GitServer) -> None:
    repository = server.repository("pipes")
    server.faults.redirect = server.base

    with pytest.raises(PenstockError, match="too often"):
        await resolve(client, repository.url)

    assert len(server.seen) == 6


async def test_request_for_objects_is_not_redirected(client: GitClient, server: GitServer) -> None:
    repository = server.repository("pipes")
    repository.commit({"a": "1"})
    server.faults.redirect = "http://localhost:1"
    server.faults.redirect_method = "POST"

    with pytest.raises(PenstockError, match="redirects to a forbidden address"):
        await resolve(client, repository.url)


@pytest.mark.parametrize(
    "target",
    ["http://169.254.169.254", "file:///etc/passwd?x=", "ssh://localhost", "http://[fe80::1]"],
)
async def test_redirect_to_a_metadata_service_or_a_file_is_refused(
    client: GitClient, server: GitServer, target: str
) -> None:
    repository = server.repository("pipes")
    server.faults.redirect = target

    with pytest.raises(PenstockError, match=r"redirects to|invalid repository URL"):
        await resolve(client, repository.url)


@pytest.mark.parametrize("status", [400, 429, 500, 503])
async def test_failing_server_is_reported_with_its_status(
    client: GitClient, server: GitServer, status: int
) -> None:
    repository = server.repository("pipes")
    server.faults.status = status

    with pytest.raises(PenstockError, match=f"answered with HTTP {status}") as caught:
        await resolve(client, repository.url)

    assert caught.value.reason == "GitOperationFailed"


async def test_server_that_is_no_git_server_is_told_apart(
    client: GitClient, server: GitServer
) -> None:
    repository = server.repository("pipes")
    server.faults.plain = True

    with pytest.raises(PenstockError, match="not a Git repository over smart HTTP"):
        await resolve(client, repository.url)


async def test_server_that_is_down_is_reported(client: GitClient) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

        with pytest.raises(
            PenstockError, match=r"cannot fetch from 'http://localhost:\d+/a': connection refused$"
        ):
            await resolve(client, f"http://localhost:{port}/a")


async def test_host_that_does_not_exist_is_reported(client: GitClient) -> None:
    told = r"cannot fetch from 'https://nowhere\.invalid/a': the host name cannot be resolved$"

    with pytest.raises(PenstockError, match=told):
        await resolve(client, "https://nowhere.invalid/a")


async def test_lying_server_is_caught(client: GitClient, server: GitServer, out: Path) -> None:
    repository = server.repository("pipes")
    old = repository.commit({"a": "old"}).encode()
    new = repository.commit({"a": "new"}).encode()
    resolved = await resolve(client, repository.url)
    server.faults.rewrite = lambda body: body.replace(new, old)

    with pytest.raises(PenstockError, match=f"did not send commit {new.decode()}"):
        await client.checkout(repository.url, resolved, GitAuth(), out, timeout=10, flow="team")

    assert list(out.iterdir()) == []  # noqa: ASYNC240  # nobody waits


async def test_server_cannot_have_its_objects_fetched_from_elsewhere(
    client: GitClient, server: GitServer, tls_server: GitServer, ca: bytes, out: Path
) -> None:
    repository = server.repository("pipes")
    repository.commit({"a": "1"})
    resolved = await resolve(client, repository.url)
    elsewhere = f"{tls_server.base}/internal"
    lines = ["packfile-uris\n", f"{elsewhere} sha1 {'a' * 40}\n", "packfile\n"]
    server.faults.fetched = "".join(f"{len(line) + 4:04x}{line}" for line in lines).encode()

    with pytest.raises(PenstockError, match="to another server for its objects"):
        await client.checkout(
            repository.url, resolved, GitAuth(ca=ca), out, timeout=10, flow="team"
        )

    assert tls_server.seen == []


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]"])
async def test_metadata_service_is_not_asked(client: GitClient, host: str) -> None:
    with pytest.raises(PenstockError, match="metadata service"):
        await resolve(client, f"http://{host}/latest")
