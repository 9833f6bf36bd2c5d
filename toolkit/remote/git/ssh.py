"""Git over SSH: asyncssh transports the protocol of dulwich to the program on the server.

Keys and host keys come from the Secret and stay in memory; neither the user's SSH configuration nor
an agent is used. A host that is not in ``known_hosts`` is refused. `toolkit.remote.ssh.knownhosts`
parses that file, because asyncssh ignores a revocation for a port if another line trusts the key
without a port.

dulwich blocks on reads, and asyncssh needs an event loop: the loop runs in a thread of the worker,
and executes each read or write.
"""

import asyncio
import base64
import io
import os
import shlex
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import asyncssh
from dulwich.client import TraditionalGitClient
from dulwich.protocol import Protocol

from toolkit.remote.git import packets
from toolkit.remote.git.auth import GitAuth
from toolkit.remote.git.dial import Dial
from toolkit.remote.git.errors import GitAuthError, GitError
from toolkit.remote.git.service import Service
from toolkit.remote.git.url import GitUrl
from toolkit.remote.ssh import causes
from toolkit.remote.ssh.knownhosts import KnownHosts
from toolkit.remote.ssh.publickeys import PublicKey

DEFAULT_USER: Final = "git"
CONNECT_SECONDS: Final = 30.0
_CHUNK: Final = 64 << 10
_MAX_COMPLAINT: Final = 2000
_MAX_SKIPPED: Final = 3

_NO_HOME: Final = "/nonexistent"

_Keys = list[asyncssh.SSHKey]

_T = TypeVar("_T")


class SshClient(TraditionalGitClient):
    """Talks to one repository; ``timeout`` bounds each wait for the server, in seconds."""

    def __init__(
        self, url: GitUrl, auth: GitAuth, *, dial: Dial, timeout: float, service: Service
    ) -> None:
        super().__init__(thin_packs=False)
        self._service = service
        self._url = url
        self._auth = auth
        self._dial = dial
        self._timeout = timeout
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._connection: asyncssh.SSHClientConnection | None = None
        self._known: KnownHosts | None = None
        self._protocol: Protocol | None = None
        self._process: asyncssh.SSHClientProcess[bytes] | None = None

    def close(self) -> None:
        """Hang up and end the thread."""
        if self._protocol is not None:
            self._protocol.close()
        if self._thread.is_alive():
            with suppress(GitError):
                self._wait(self._hang_up())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def complaint(self) -> str:
        """Return the other output of the server, which may explain why it closed the connection."""
        if self._process is None:
            return ""
        with suppress(GitError):
            said = self._wait(self._process.stderr.read(_MAX_COMPLAINT))
            return " ".join(said.decode("utf-8", "replace").split())
        return ""

    def _connect(
        self,
        cmd: bytes,
        path: str | bytes,
        protocol_version: int | None = None,  # noqa: ARG002  # dulwich's signature
    ) -> tuple[Protocol, Callable[[], bool], None]:
        """Start the program over there (gitprotocol-pack(5), "SSH Transport")."""
        command = (
            f"git-{cmd.decode()} {shlex.quote(path if isinstance(path, str) else path.decode())}"
        )
        if not self._thread.is_alive():
            self._thread.start()
        process = self._process = self._wait(self._open(command))
        reader = io.BufferedReader(
            _Stdout(lambda size: self._wait(process.stdout.read(size))), _CHUNK
        )

        def write(data: bytes) -> int:
            self._wait(_write(process, data))
            return len(data)

        def close() -> None:
            self._loop.call_soon_threadsafe(process.close)

        # dulwich does not close it when the server hangs up at once.
        self._protocol = Protocol(packets.watched(reader.read, self._url), write, close=close)
        return self._protocol, lambda: False, None

    async def _open(self, command: str) -> asyncssh.SSHClientProcess[bytes]:
        if self._connection is None:
            self._connection = await self._log_in()
        return await self._connection.create_process(
            command, encoding=None, env={"GIT_PROTOCOL": "version=2"}
        )

    async def _log_in(self) -> asyncssh.SSHClientConnection:
        key, self._known = _private_key(self._auth), _known_hosts(self._auth)
        # asyncssh asks for the name and the home of the process's user, and fails if neither the
        # environment nor /etc/passwd has them, as in our image. It does not use them here.
        os.environ.setdefault("LOGNAME", DEFAULT_USER)
        os.environ.setdefault("HOME", _NO_HOME)
        seconds = min(self._timeout, CONNECT_SECONDS)
        return await asyncssh.connect(
            self._url.host,
            self._url.port,
            username=self._url.username or DEFAULT_USER,
            client_keys=[key],
            known_hosts=_matching(self._known),
            tunnel=_Tunnel(self._dial, seconds),
            preferred_auth="publickey",
            agent_path=None,
            config=None,
            x509_trusted_certs=None,
            gss_host=None,
            connect_timeout=seconds,
            login_timeout=seconds,
        )

    async def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            await self._connection.wait_closed()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run ``work`` on the loop's thread and convert its errors."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(self._timeout)
        except asyncssh.HostKeyNotVerifiable as exc:
            raise GitAuthError(
                f"host key verification failed for '{self._url}': "
                "the key that the server shows is not in 'known_hosts', or is revoked there"
                f"{_skipped(self._known)}"
            ) from exc
        except asyncssh.PermissionDenied as exc:
            raise GitAuthError(f"'{self._url}' does not accept the key in 'identity'") from exc
        except TimeoutError as exc:
            raise GitError(
                f"cannot {self._service.verb} '{self._url}': no response in time"
            ) from exc
        except (OSError, asyncssh.Error) as exc:
            why = causes.cause(exc)
            raise GitError(f"cannot {self._service.verb} '{self._url}': {why}") from exc


class _Stdout(io.RawIOBase):
    """The output of the server as a blocking stream."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Tunnel:
    """Opens asyncssh's connection with our checks and proxy."""

    def __init__(self, dial: Dial, timeout: float) -> None:
        self._dial = dial
        self._timeout = timeout

    async def create_connection(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Do as ``loop.create_connection`` does."""
        connection = await asyncio.to_thread(self._dial, host, port, timeout=self._timeout)
        connection.setblocking(False)  # noqa: FBT003  # the socket module's signature
        return await asyncio.get_running_loop().create_connection(factory, sock=connection)


async def _write(process: asyncssh.SSHClientProcess[bytes], data: bytes) -> None:
    # The server may have sent a reason before it closed the connection; the next read gets it.
    with suppress(BrokenPipeError):
        process.stdin.write(data)
        await process.stdin.drain()


_UNREADABLE: Final = (asyncssh.KeyImportError, ValueError)
"""asyncssh does not translate all errors of what it decodes: a text in a key need not be UTF-8."""


def _private_key(auth: GitAuth) -> asyncssh.SSHKey:
    if not auth.identity:
        raise GitAuthError("a repository over ssh needs 'identity' in the secret")
    try:
        return asyncssh.import_private_key(auth.identity, auth.passphrase)
    except asyncssh.KeyEncryptionError as exc:
        raise GitAuthError("the passphrase in 'password' does not open 'identity'") from exc
    except _UNREADABLE as exc:
        raise GitAuthError(
            "'identity' in the secret is not a private key that can be read; "
            "an encrypted one needs its passphrase in 'password'"
        ) from exc


def _known_hosts(auth: GitAuth) -> KnownHosts:
    if not auth.known_hosts:
        raise GitAuthError("a repository over ssh needs 'known_hosts' in the secret")
    return auth.hosts()


def _skipped(known: KnownHosts | None) -> str:
    return (
        f"; skipped: {', '.join(known.skipped[:_MAX_SKIPPED])}" if known and known.skipped else ""
    )


def _matching(known: KnownHosts) -> Callable[[str, str, int | None], Sequence[_Keys]]:
    """Return the function with which asyncssh gets the keys of a host: trusted, CAs, revoked."""

    def match(host: str, address: str, port: int | None) -> Sequence[_Keys]:
        found = known.match(host, address, port)
        return [_usable(keys) for keys in (found.keys, found.authorities, found.revoked)]

    return match


def _usable(keys: Sequence[PublicKey]) -> _Keys:
    """Return the keys of types that asyncssh supports; it accepts no others from a server."""
    read = []
    for key in keys:
        with suppress(*_UNREADABLE):
            encoded = base64.b64encode(key.blob).decode()
            read.append(asyncssh.import_public_key(f"{key.kind} {encoded}"))
    return read
