"""Code that takes a worker over, of any kind, has what its row says and nothing else of ours.

Each worker is started as ever, by its own row; the module that it runs adds attempts to the
operations of the real one.
"""

import os
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from controllers.source.generating import builder
from toolkit.chart import charts
from toolkit.helm import actions
from toolkit.native import build, calls
from toolkit.native.kind import WorkerKind
from toolkit.native.pool import WorkerPool
from toolkit.remote.git import git

pytestmark = pytest.mark.asyncio(loop_scope="module")

REPOSITORY = Path(__file__).parents[3]
PROXY = "http://proxy.example:3128"


def _engine() -> WorkerKind:
    build.build()
    return calls.kind()


def _helm() -> WorkerKind:
    build.build()
    return actions.kind()


def _chart() -> WorkerKind:
    build.build()
    return charts.kind()


KINDS = {
    "engine": _engine,
    "helm": _helm,
    "git": lambda: git.KIND,
    "chart": _chart,
    "generators": lambda: builder.KIND,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A worker, and what is around it."""

    kind: WorkerKind
    pool: WorkerPool
    reads: Path
    writes: Path
    outside: Path

    async def attempt(self, what: str, argument: object = "") -> str:
        """Have the worker try it."""
        answer = await self.pool.call(what, str(argument).encode(), timeout=60, flow="team")
        return answer.decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[*KINDS])
async def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    root = tmp_path_factory.mktemp("world")
    reads, writes, outside = (root / name for name in ("reads", "writes", "outside"))
    for directory in (reads, writes, outside):
        directory.mkdir()
        (directory / "file").write_text("content")
    real = KINDS[request.param]()
    kind = replace(real, module=f"tests.loopback.native.probes.{request.param}")
    pool = WorkerPool(kind, size=1, reads=(reads,), writes=(writes,))
    with (outside / "file").open() as lent, pytest.MonkeyPatch.context() as patch:
        os.set_inheritable(lent.fileno(), True)  # noqa: FBT003  # it takes no keyword
        for name in ("AWS_SECRET_ACCESS_KEY", "KUBECONFIG", "PENSTOCK_TOKEN"):
            patch.setenv(name, "secret")
        patch.setenv("https_proxy", PROXY)
        yield World(kind=kind, pool=pool, reads=reads, writes=writes, outside=outside)
        await pool.close()


@pytest.fixture
def server() -> Iterator[int]:
    """Return the port of a server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        yield port


async def test_a_worker_opens_what_its_pool_gave_it(world: World) -> None:
    assert await world.attempt("read", world.reads / "file") == "done: content"
    assert await world.attempt("read", world.writes / "file") == "done: content"
    assert await world.attempt("write", world.writes / "new") == "done: 7"
    moved = f"{world.writes}/new {world.writes}/moved"
    assert await world.attempt("move", moved) == "done: " + str(world.writes / "moved")


async def test_a_worker_changes_nothing_that_it_may_only_read(world: World) -> None:
    assert await world.attempt("write", world.reads / "file") == "EACCES"
    assert await world.attempt("write", world.reads / "new") == "EACCES"
    for how in ("truncate", "truncate by path", "chmod"):
        assert await world.attempt(how, world.reads / "file") in {"EACCES", "EPERM"}
    moved = f"{world.reads}/file {world.writes}/stolen"
    assert await world.attempt("move", moved) in {"EACCES", "EXDEV"}

    assert (world.reads / "file").read_text() == "content"


async def test_a_worker_opens_nothing_else(world: World) -> None:
    for path in (
        world.outside / "file",
        world.writes / ".." / "outside" / "file",
        REPOSITORY / "pyproject.toml",
        Path("/etc/passwd"),
        Path(f"/proc/{os.getpid()}/environ"),
        Path(f"/proc/{os.getpid()}/mem"),
        Path("/proc/self/environ"),
    ):
        assert await world.attempt("read", path) == "EACCES", path
    for path in (world.outside, Path.home(), REPOSITORY, Path("/proc"), Path("/tmp")):  # noqa: S108
        assert await world.attempt("list", path) == "EACCES", path
    assert await world.attempt("write", world.outside / "new") == "EACCES"
    for how in ("truncate", "truncate by path", "chmod"):
        assert await world.attempt(how, world.outside / "file") in {"EACCES", "EPERM"}


async def test_a_link_in_its_directory_leads_nowhere(world: World) -> None:
    link = world.writes / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(world.outside / "file")

    assert await world.attempt("read", link) == "EACCES"


async def test_only_who_fetches_has_the_network(world: World, server: int) -> None:
    answers = [await world.attempt("connect", server), await world.attempt("send", server)]

    fetches = world.kind.module.endswith(".git")
    assert answers == (["done: connected", "done: 5"] if fetches else ["EPERM", "EPERM"])


async def test_nobody_listens_or_speaks_to_this_machine(world: World, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        server.listen()

        assert await world.attempt("unix", tmp_path / "socket") == "EPERM"
    assert await world.attempt("listen") == "EPERM"
    assert await world.attempt("netlink") == "EPERM"


async def test_no_program_is_run(world: World) -> None:
    for how in ("execute", "replace"):
        assert await world.attempt(how, "/bin/true") in {"EPERM", "EACCES"}
    assert await world.attempt("fork") == "EPERM"


async def test_no_other_process_is_touched(world: World) -> None:
    for how in ("signal", "trace", "read memory", "limit"):
        assert await world.attempt(how, os.getpid()) == "EPERM", how


async def test_what_binds_a_worker_is_not_undone(world: World) -> None:
    for how in ("outlive", "show"):
        assert await world.attempt(how) == "EPERM", how

    assert await world.attempt("dumpable") == "done: 0"
    pid = (await world.attempt("pid")).removeprefix("done: ")
    assert _status(int(pid)) == {"NoNewPrivs": "1", "Seccomp": "2"}


async def test_nothing_of_ours_is_inherited(world: World) -> None:
    environment = await world.attempt("environment")
    descriptors = await world.attempt("descriptors")

    assert "secret" not in environment
    assert (PROXY in environment) is world.kind.network
    status = (world.outside / "file").stat()
    assert f"{status.st_dev}:{status.st_ino}" not in descriptors


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return {name: fields[name] for name in ("NoNewPrivs", "Seccomp")}
