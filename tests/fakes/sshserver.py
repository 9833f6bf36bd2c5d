"""A Git server over SSH: asyncssh in front of the real ``git upload-pack`` and ``receive-pack``."""

import asyncio
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import asyncssh

from tests.fakes.gitrepository import Repository, environment

_PROGRAMS = {"git-upload-pack", "git-receive-pack"}
_READ_ONLY = b"ERROR: The key you are authenticating with has been marked as read only.\n"


class SshServer:
    """Serves the repositories below ``root`` to the holders of the authorized keys.

    ``host`` is how clients call it, ``address`` where it listens.
    """

    def __init__(
        self,
        root: Path,
        *,
        authorized: list[asyncssh.SSHKey],
        accept_protocol: bool = True,
        host: str = "localhost",
        address: str = "127.0.0.1",
    ) -> None:
        self.root = root
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.commands: list[str] = []
        self.users: list[str] = []
        self.farewells: dict[str, bytes] = {}
        """By path, what is said instead of an answer to the first request."""
        self.read_only: set[str] = set()
        """Paths of repositories that may be fetched and not pushed to, as GitHub words it."""
        self.base = ""
        self.port = 0
        self._host = host
        self._address = address
        self._authorized = authorized
        self._accept_protocol = accept_protocol
        self._acceptor: asyncssh.SSHAcceptor | None = None

    @property
    def known_hosts(self) -> bytes:
        """Return what a client needs to know this server."""
        key = self.host_key.export_public_key("openssh").decode().strip()
        return f"[{self._host}]:{self.port} {key}\n".encode()

    def repository(self, name: str, *, head: str = "main") -> Repository:
        """Make an empty repository and serve it at ``<base>/<name>.git``."""
        return Repository(self.root / f"{name}.git", url=f"{self.base}/{name}.git", head=head)

    async def __aenter__(self) -> Self:
        authorized = b"".join(key.export_public_key("openssh") for key in self._authorized)
        self._acceptor = await asyncssh.listen(
            self._address,
            0,
            server_host_keys=[self.host_key],
            authorized_client_keys=asyncssh.import_authorized_keys(authorized.decode()),
            process_factory=self._run,
            encoding=None,
        )
        self.port = self._acceptor.get_port()
        self.base = f"ssh://git@{self._host}:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._acceptor is not None
        self._acceptor.close()
        await self._acceptor.wait_closed()

    async def _run(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        self.commands.append(process.command or "")
        self.users.append(process.get_extra_info("username"))
        program, path = shlex.split(process.command or "")
        directory = self.root / path.lstrip("/")
        if farewell := self.farewells.get(path):
            process.stdout.write(b"000eversion 2\n0000")
            process.stderr.write(farewell)
            process.exit(1)
            return
        if path in self.read_only and program == "git-receive-pack":
            process.stderr.write(_READ_ONLY)
            process.exit(1)
            return
        if program not in _PROGRAMS or not directory.is_dir():
            process.stderr.write(b"ERROR: Repository not found.\n")
            process.exit(1)
            return
        protocol = process.env.get("GIT_PROTOCOL", "") if self._accept_protocol else ""
        child = await asyncio.create_subprocess_exec(
            *("git", program.removeprefix("git-"), str(directory)),
            env=environment() | {"GIT_PROTOCOL": protocol},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        requests = asyncio.ensure_future(_pump(process.stdin, child.stdin))
        try:
            await _pump(child.stdout, process.stdout)
            process.exit(await child.wait())
        except BaseException as exc:
            with suppress(ProcessLookupError):
                child.kill()
            if not isinstance(exc, OSError | asyncssh.Error):  # The client has gone: it may.
                raise
        finally:
            requests.cancel()
            await child.wait()


async def _pump(source: Any, target: Any) -> None:
    while data := await source.read(1 << 16):
        target.write(data)
        await target.drain()
    target.write_eof()
