"""The way through a proxy, for every kind of server."""

import asyncio
import contextlib
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import asyncssh
import pytest

from tests.fakes import gitserver
from tests.fakes.gitserver import GitServer
from tests.fakes.sshserver import SshServer
from toolkit.errors import PenstockError
from toolkit.remote import tunnel
from toolkit.remote.git.git import GitAuth, GitClient, GitReference, Proxy

MAIN = GitReference(branch="main")


class Starter(Protocol):
    """Starts one of the fake proxies."""

    def __call__(
        self, *, basic: tuple[str, str] | None = None
    ) -> AbstractAsyncContextManager[gitserver.Proxy]: ...


KINDS = pytest.mark.parametrize("start", [gitserver.proxy, gitserver.socks_proxy])


@KINDS
@pytest.mark.parametrize("login", [None, ("ada", "hunter2")])
async def test_https_goes_through_the_proxy(
    client: GitClient,
    tls_server: GitServer,
    ca: bytes,
    start: Starter,
    login: tuple[str, str] | None,
) -> None:
    repository = tls_server.repository("pipes")
    commit = repository.commit({"a": "1"})
    async with start(basic=login) as running:
        proxy = proxy_at(running.address, login)

        resolved = await client.resolve(
            repository.url, MAIN, GitAuth(ca=ca, proxy=proxy), timeout=10, flow="team"
        )

    assert resolved.commit == commit
    assert len(running.targets) == 1


def proxy_at(address: str, login: tuple[str, str] | None) -> Proxy:
    username, password = login or (None, None)
    return Proxy(address=address, username=username, password=password)


@KINDS
async def test_http_goes_through_the_proxy(
    client: GitClient, server: GitServer, start: Starter, out: Path
) -> None:
    repository = server.repository("pipes")
    repository.commit({"a": "1"})
    async with start() as running:
        auth = GitAuth(proxy=Proxy(address=running.address))

        resolved = await client.resolve(repository.url, MAIN, auth, timeout=10, flow="team")
        await client.checkout(repository.url, resolved, auth, out, timeout=10, flow="team")

    assert (out / "a").read_text() == "1"
    assert running.targets


@KINDS
async def test_ssh_goes_through_the_proxy(
    client: GitClient, tmp_path: Path, start: Starter
) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with SshServer(tmp_path / "ssh", authorized=[key]) as server, start() as running:
        repository = server.repository("pipes")
        commit = repository.commit({"a": "1"})
        auth = GitAuth(
            identity=key.export_private_key(),
            known_hosts=server.known_hosts,
            proxy=Proxy(address=running.address),
        )

        resolved = await client.resolve(repository.url, MAIN, auth, timeout=10, flow="team")

    assert resolved.commit == commit
    assert len(running.targets) == 1


@KINDS
@pytest.mark.parametrize("login", [None, ("ada", "wrong")])
async def test_refusing_proxy_is_an_authentication_failure(
    client: GitClient,
    tls_server: GitServer,
    ca: bytes,
    start: Starter,
    login: tuple[str, str] | None,
) -> None:
    repository = tls_server.repository("pipes")
    async with start(basic=("ada", "hunter2")) as running:
        proxy = proxy_at(running.address, login)

        with pytest.raises(PenstockError, match="proxy requires valid credentials") as caught:
            await client.resolve(
                repository.url, MAIN, GitAuth(ca=ca, proxy=proxy), timeout=10, flow="team"
            )

    assert caught.value.reason == "AuthenticationFailed"
    assert "wrong" not in str(caught.value)


@KINDS
async def test_refusing_proxy_before_ssh_is_an_authentication_failure(
    client: GitClient, tmp_path: Path, start: Starter
) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with (
        SshServer(tmp_path / "ssh", authorized=[key]) as server,
        start(basic=("ada", "hunter2")) as running,
    ):
        auth = GitAuth(
            identity=key.export_private_key(),
            known_hosts=server.known_hosts,
            proxy=Proxy(address=running.address, username="ada", password="wrong"),
        )

        with pytest.raises(PenstockError, match="proxy requires valid credentials") as caught:
            await client.resolve(f"{server.base}/pipes.git", MAIN, auth, timeout=10, flow="team")

    assert caught.value.reason == "AuthenticationFailed"


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_proxy_that_is_down_is_named(
    client: GitClient, tls_server: GitServer, ca: bytes, scheme: str
) -> None:
    repository = tls_server.repository("pipes")
    proxy = Proxy(address=f"{scheme}://localhost:1")

    with pytest.raises(PenstockError, match="proxy"):
        await client.resolve(
            repository.url, MAIN, GitAuth(ca=ca, proxy=proxy), timeout=10, flow="team"
        )

    assert tls_server.seen == []


async def test_proxy_of_the_environment_is_used_unless_excepted(
    client: GitClient, server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = server.repository("pipes")
    repository.commit({"a": "1"})
    async with gitserver.proxy() as running:
        monkeypatch.setenv("http_proxy", running.address)
        await client.resolve(repository.url, MAIN, GitAuth(), timeout=10, flow="team")
        through = len(running.targets)
        monkeypatch.setenv("no_proxy", "localhost")

        await client.resolve(repository.url, MAIN, GitAuth(), timeout=10, flow="team")

    assert through > 0
    assert len(running.targets) == through


async def test_proxy_gets_so_many_seconds_in_all() -> None:
    refused, ended = asyncio.Event(), asyncio.Event()

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # All that a SOCKS proxy says, and none of it late by itself.
        for byte in b"\x05\x00\x05\x00\x00\x01" + bytes(6):
            writer.write(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(refused.wait(), 0.3)
        writer.close()
        ended.set()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        proxy = Proxy(address=f"socks5://127.0.0.1:{server.sockets[0].getsockname()[1]}")

        with pytest.raises(PenstockError, match="no response in time"):
            await asyncio.to_thread(tunnel.connect, proxy, "git.example.com", 443, timeout=1.0)
        refused.set()
        await ended.wait()


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_proxy_is_no_metadata_service(scheme: str) -> None:
    proxy = Proxy(address=f"{scheme}://[::ffff:169.254.169.254]:80")

    with pytest.raises(PenstockError, match="metadata service"):
        tunnel.connect(proxy, "git.example.com", 22, timeout=5)
