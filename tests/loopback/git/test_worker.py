"""What only a process can promise: an end in time, bounded memory, hostile repositories."""

import random
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import asyncssh
import pytest

from tests.fakes.gitrepository import link
from tests.fakes.gitserver import GitServer, Repository
from tests.fakes.sshserver import SshServer
from toolkit.errors import PenstockError, StalledError
from toolkit.native.pool import WorkerPool
from toolkit.remote.git import git
from toolkit.remote.git.errors import EmptyRepositoryError, GitAuthError
from toolkit.remote.git.git import GitAuth, GitClient, GitReference, Limits
from toolkit.remote.git.limits import MiB

MAIN = GitReference(branch="main")
ANYONE = GitAuth()
SMALL = 72 * MiB
"""For a worker: hardly more than Python and dulwich take by themselves."""


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[WorkerPool]:
    kind = replace(git.KIND, memory_limit=SMALL)
    running = WorkerPool(kind, size=2, writes=(tmp_path,))
    yield running
    await running.close()


@pytest.fixture
def workers(pool: WorkerPool) -> GitClient:
    return GitClient(pool)


@pytest.fixture
def repository(server: GitServer) -> Repository:
    return server.repository("pipes")


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


async def checkout(client: GitClient, repository: Repository, out: Path) -> None:
    resolved = await client.resolve(repository.url, MAIN, ANYONE, timeout=20, flow="team")
    await client.checkout(repository.url, resolved, ANYONE, out, timeout=60, flow="team")


async def test_a_push_travels_through_a_worker(
    workers: GitClient, repository: Repository, tmp_path: Path
) -> None:
    repository.accept_pushes()

    done = await workers.commit(
        repository.url,
        "main",
        [git.NewFile(path="a/b", content=b"1")],
        ANYONE,
        message="Add b",
        author=git.Author(name="Ada", email="ada@example.org"),
        now=datetime.now(UTC),
        scratch=tmp_path,
        timeout=20,
        flow="team",
    )

    assert repository.revision("main") == done.commit
    assert names(tmp_path) == {"server"}


async def test_commit_travels_through_a_worker(
    workers: GitClient, repository: Repository, out: Path
) -> None:
    repository.commit({"a": "1", "b": link("/etc/passwd")})
    repository.tag("v1.0.0", message="first")
    reference = GitReference(tag="v1.0.0")

    resolved = await workers.resolve(repository.url, reference, ANYONE, timeout=20, flow="team")
    done = await workers.checkout(repository.url, resolved, ANYONE, out, timeout=20, flow="team")

    assert (out / "a").read_text() == "1"
    assert done.tag is not None
    assert done.left_out == ("b",)


async def test_a_confined_worker_reads_keys_and_keeps_to_known_hosts(
    workers: GitClient, tmp_path: Path, out: Path
) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with SshServer(tmp_path / "ssh", authorized=[key]) as server:
        repository = server.repository("pipes")
        repository.commit({"a": "1"})
        auth = GitAuth(identity=key.export_private_key(), known_hosts=server.known_hosts)

        resolved = await workers.resolve(repository.url, MAIN, auth, timeout=20, flow="team")
        await workers.checkout(repository.url, resolved, auth, out, timeout=20, flow="team")

    assert (out / "a").read_text() == "1"


async def test_a_confined_worker_shows_a_certificate(
    workers: GitClient, tmp_path: Path, own_certificate: GitAuth, server_tls: ssl.SSLContext
) -> None:
    async with GitServer(tmp_path / "tls", tls=server_tls) as server:
        repository = server.repository("pipes")
        commit = repository.commit({"a": "1"})

        resolved = await workers.resolve(
            repository.url, MAIN, own_certificate, timeout=20, flow="team"
        )

    assert resolved.commit == commit


async def test_errors_keep_their_class_and_reason(
    workers: GitClient, server: GitServer, tmp_path: Path
) -> None:
    empty = server.repository("empty")
    async with GitServer(tmp_path / "closed", basic=("ada", "hunter2")) as closed:
        private = closed.repository("private")

        with pytest.raises(GitAuthError) as refused:
            await workers.resolve(private.url, MAIN, ANYONE, timeout=20, flow="team")
    with pytest.raises(EmptyRepositoryError) as nothing:
        await workers.resolve(empty.url, MAIN, ANYONE, timeout=20, flow="team")
    with pytest.raises(StalledError):
        await workers.resolve(
            empty.url, GitReference(commit="short"), ANYONE, timeout=20, flow="team"
        )

    assert refused.value.reason == "AuthenticationFailed"
    assert nothing.value.reason == "EmptyGitRepository"


@pytest.mark.parametrize("stage", ["resolve", "checkout"])
async def test_slow_server_is_cut_off_at_the_deadline(
    workers: GitClient, server: GitServer, repository: Repository, out: Path, stage: str
) -> None:
    repository.commit({"a": "x" * 2000})
    resolved = await workers.resolve(repository.url, MAIN, ANYONE, timeout=20, flow="team")
    server.faults.seconds_per_byte = 0.05
    work = {
        "resolve": lambda: workers.resolve(repository.url, MAIN, ANYONE, timeout=0.5, flow="team"),
        "checkout": lambda: workers.checkout(
            repository.url, resolved, ANYONE, out, timeout=0.5, flow="team"
        ),
    }[stage]

    # A byte keeps coming in all the while; the whole answer would take minutes.
    with pytest.raises(PenstockError, match="timed out") as caught:
        await work()

    assert caught.value.reason == "GitOperationFailed"
    assert repository.url in str(caught.value)


async def test_workers_are_of_use_after_a_deadline(
    workers: GitClient, server: GitServer, repository: Repository, out: Path, tmp_path: Path
) -> None:
    repository.commit({"a": "1"})
    resolved = await workers.resolve(repository.url, MAIN, ANYONE, timeout=20, flow="team")
    server.faults.seconds_per_byte = 0.05
    with pytest.raises(PenstockError):
        await workers.checkout(repository.url, resolved, ANYONE, out, timeout=0.5, flow="team")
    server.faults.seconds_per_byte = 0

    await checkout(workers, repository, tmp_path / "again")

    assert (tmp_path / "again/a").read_text() == "1"
    assert names(tmp_path) == {"server", "out", "again"}


async def test_file_larger_than_the_memory_of_a_worker_is_written(
    workers: GitClient, repository: Repository, out: Path
) -> None:
    blob = repository.zeros(100)
    repository.commit_tree(repository.raw_tree([("100644", b"large", blob)]))

    await checkout(workers, repository, out)

    assert (out / "large").stat().st_size == 100 * MiB


async def test_sparse_file_of_a_gigabyte_is_refused(
    workers: GitClient, repository: Repository, out: Path
) -> None:
    blob = repository.zeros(1024)
    repository.commit_tree(repository.raw_tree([("100644", b"bomb", blob)]))

    with pytest.raises(PenstockError, match=r"'bomb' in the repository has 1073741824 bytes"):
        await checkout(workers, repository, out)

    assert names(out) == set()


async def test_hundred_thousand_files_are_refused(
    workers: GitClient, repository: Repository, out: Path
) -> None:
    blob = repository.raw_object("blob", b"x")
    tree = repository.raw_tree([("100644", b"%06d" % i, blob) for i in range(100_000)])
    repository.commit_tree(tree)

    with pytest.raises(PenstockError, match="more files than the 50000 allowed"):
        await checkout(workers, repository, out)

    assert names(out) == set()


async def test_tree_that_multiplies_is_refused(
    workers: GitClient, repository: Repository, out: Path
) -> None:
    tree = repository.raw_tree([("100644", b"f", repository.raw_object("blob", b"x"))])
    for _ in range(12):
        tree = repository.raw_tree([("40000", b"%d" % i, tree) for i in range(10)])
    repository.commit_tree(tree)

    with pytest.raises(PenstockError, match=r"more (files|directories) than the 50000 allowed"):
        await checkout(workers, repository, out)


async def test_pack_is_cut_off_at_its_limit(
    pool: WorkerPool, repository: Repository, out: Path
) -> None:
    repository.commit({"noise": random.Random(1).randbytes(2 * MiB)})  # noqa: S311  # test data
    client = GitClient(pool, limits=Limits(pack_bytes=MiB))

    with pytest.raises(PenstockError, match="more bytes in packs than the 1048576 allowed"):
        await checkout(client, repository, out)


async def test_target_that_cannot_be_written_is_reported(
    workers: GitClient, repository: Repository, tmp_path: Path
) -> None:
    repository.commit({"a": "1"})
    resolved = await workers.resolve(repository.url, MAIN, ANYONE, timeout=20, flow="team")
    (tmp_path / "file").touch()

    with pytest.raises(PenstockError, match="cannot store the files of") as caught:
        await workers.checkout(
            repository.url, resolved, ANYONE, tmp_path / "file", timeout=20, flow="team"
        )

    assert caught.value.reason == "GitOperationFailed"
