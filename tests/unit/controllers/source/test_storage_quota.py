"""A source whose namespace has no room says so, keeps what it has, and recovers by itself."""

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from controllers.source.source import SUCCEEDED, Fetched, File, Scratch, Upstream
from crds import GIT_REPOSITORY
from crds.kind import Kind
from crds.meta import Artifact
from crds.source import GitRepository
from tests.fakes.passes import Cluster, condition
from toolkit.artifact.quota import QuotaError
from toolkit.artifact.room import Limited
from toolkit.artifact.storage import Storage
from toolkit.artifact.store import Owner

SIZE = 1000


@dataclass
class Upstreams:
    """A source of random files of one size, whose revision the test says."""

    revision: str = "1"
    charged: str = ""
    kind: Kind[GitRepository] = GIT_REPOSITORY

    async def resolve(self, _: GitRepository, _scratch: Scratch) -> Upstream:
        return Upstream(revision=self.revision, charged=self.charged)

    async def fetch(self, _: GitRepository, upstream: Upstream, into: Path) -> Fetched:
        file = into / "file"
        file.write_bytes(os.urandom(SIZE))
        name = f"{upstream.revision}.tar.gz"
        return Fetched(filename=name, summary="fetched", content=File(path=file))

    def message(self, _: GitRepository, _artifact: Artifact) -> str:
        return "stored"

    def reason(self, _: Artifact) -> str:
        return SUCCEEDED


def repository() -> GitRepository:
    body = {
        "kind": "GitRepository",
        "metadata": {"name": "web", "namespace": "apps", "generation": 1},
        "spec": {"interval": "1m", "url": "https://git.example/web"},
    }
    return msgspec.convert(body, GitRepository)


def started(directory: Path) -> tuple[Storage, Cluster]:
    """Start a process on what is on the disk; older artifacts may go at once."""
    store = Storage(
        directory / "root",
        advertised="store.test",
        retention_ttl=-1,
        retention_records=1,
        room=Limited(2 * SIZE),
    )
    return store, Cluster(store, directory / "scratch")


async def test_new_revision_waits_until_there_is_room(tmp_path: Path) -> None:
    store, cluster = started(tmp_path)
    source, obj = Upstreams(revision="2"), repository()
    cluster.put(obj)
    await cluster.reconcile(GIT_REPOSITORY, source, obj)
    older = store.root / "gitrepository" / "apps" / "web" / "1.tar.gz"
    older.write_bytes(os.urandom(SIZE))
    os.utime(older, (1, 1))
    _, restarted = started(tmp_path)
    restarted.put(cluster.objects["GitRepository", "apps", "web"])

    source.revision = "3"
    with pytest.raises(QuotaError):
        await restarted.reconcile(GIT_REPOSITORY, source, obj)
    refused = restarted.objects["GitRepository", "apps", "web"]
    await restarted.reconcile(GIT_REPOSITORY, source, obj)
    found = restarted.objects["GitRepository", "apps", "web"]

    status, reason, message = condition(refused, "StorageOperationFailed")
    assert (status, reason) == ("True", "StorageQuotaExceeded")
    assert "namespace 'apps'" in message
    assert refused.status.artifact.revision == "2"
    assert not older.exists()
    assert found.status.artifact.revision == "3"
    assert condition(found, "StorageOperationFailed") == ("", "", "")


async def test_who_asked_is_charged_also_for_what_is_stored_already(tmp_path: Path) -> None:
    store, cluster = started(tmp_path)
    source, obj = Upstreams(), repository()
    cluster.put(obj)
    owner = Owner(kind="GitRepository", namespace="apps", name="web")
    file = tmp_path / "file"
    file.write_bytes(os.urandom(2 * SIZE))

    await cluster.reconcile(GIT_REPOSITORY, source, obj)
    source.charged = "team"
    await cluster.reconcile(GIT_REPOSITORY, source, obj)
    other = Owner(kind="Bucket", namespace="apps", name="other")
    await store.store_file(other, revision="1", filename="1.tar.gz", file=file)
    source.revision = "2"
    await cluster.reconcile(GIT_REPOSITORY, source, obj)
    later, restarted = started(tmp_path)
    restarted.put(cluster.objects["GitRepository", "apps", "web"])
    source.revision = "3"
    await restarted.reconcile(GIT_REPOSITORY, source, obj)
    with pytest.raises(QuotaError, match="namespace 'team'"):
        await later.store_file(
            Owner(kind="Bucket", namespace="team", name="x"),
            revision="1",
            filename="1.tar.gz",
            file=file,
        )

    assert (store.root / owner.path / ".charged-team").exists()


async def test_what_was_withdrawn_is_charged_again(tmp_path: Path) -> None:
    store, cluster = started(tmp_path)
    source, obj = Upstreams(charged="team"), repository()
    cluster.put(obj)
    await cluster.reconcile(GIT_REPOSITORY, source, obj)

    await store.remove(Owner(kind="GitRepository", namespace="apps", name="web"))
    await cluster.reconcile(GIT_REPOSITORY, source, obj)

    assert (store.root / "gitrepository" / "apps" / "web" / ".charged-team").exists()
