"""What was uploaded goes when its object goes, and not before."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest_asyncio

import crds
from controllers.source.externalartifact import KIND
from controllers.source.janitor import Janitor
from crds.meta import Artifact
from crds.source_external import ExternalArtifact
from tests.fakes.apiserver import FakeApiServer
from tests.tools.tasks import running
from tests.tools.waiting import until
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.storage import Owner, Storage
from toolkit.kube.client import Client
from toolkit.kube.informer import Informer

PLURAL = crds.EXTERNAL_ARTIFACT.plural


class Bench:
    """A janitor, the API server that it follows and the store that it tidies."""

    def __init__(self, server: FakeApiServer, client: Client, root: Path) -> None:
        self.server = server
        self.root = root
        self.store = Storage(
            root / "store", advertised="localhost", retention_ttl=0, retention_records=1
        )
        self.informer = Informer(client, KIND, decode=msgspec.json.Decoder(ExternalArtifact).decode)
        self.janitor = Janitor(client, self.store, self.informer, uploads=True)

    async def upload(self, name: str, content: str = "1") -> Artifact:
        tree = self.root / f"tree-{name}-{content}"
        tree.mkdir()
        (tree / "a.yaml").write_text(content)
        return await self.store.store(
            self.owner(name),
            revision=content,
            filename=f"{content}.tar.gz",
            tree=tree,
            ignore=Ignore(),
        )

    def put(self, name: str, artifact: Artifact) -> None:
        meta = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
        status = {"artifact": msgspec.to_builtins(artifact)}
        old = self.server.objects.get((PLURAL, "team", name))
        kind = {"apiVersion": KIND.api_version, "kind": KIND.kind}
        self.server._store(PLURAL, old, {**kind, "metadata": meta, "spec": {}, "status": status})

    def owner(self, name: str) -> Owner:
        return Owner(kind=KIND.kind, namespace="team", name=name)

    def files(self, name: str) -> list[str]:
        place = self.root / "store" / self.owner(name).path
        with contextlib.suppress(FileNotFoundError):  # It may go at any moment.
            return sorted(path.name for path in place.glob("[!.]*.tar.gz") if not path.is_symlink())
        return []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with running(self.informer.run(), self.janitor.run()):
            await self.informer.wait_synced()
            yield


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    server = FakeApiServer()
    server.kinds[(KIND.group, KIND.version, PLURAL)] = KIND.kind
    async with server.running() as client:
        yield Bench(server, client, tmp_path)


async def test_a_deleted_object_takes_its_artifacts_along(bench: Bench) -> None:
    for name in ("gone", "stays"):
        bench.put(name, await bench.upload(name))

    async with bench.running():
        bench.server.remove(PLURAL, "gone", "team")
        await until(lambda: not bench.files("gone"))

    assert bench.files("stays") == ["1.tar.gz"]


async def test_what_went_while_nobody_looked_is_found_at_the_start(bench: Bench) -> None:
    bench.put("stays", await bench.upload("stays"))
    await bench.upload("orphan")

    async with bench.running():
        await until(lambda: not bench.files("orphan"))

    assert bench.files("stays") == ["1.tar.gz"]


async def test_a_new_artifact_leaves_older_ones_to_their_retention(bench: Bench) -> None:
    bench.put("app", await bench.upload("app"))

    async with bench.running():
        newer = await bench.upload("app", "2")
        kept = bench.files("app")
        bench.put("app", newer)
        await until(lambda: bench.files("app") != kept)

    assert kept == ["1.tar.gz", "2.tar.gz"]
    assert bench.files("app") == ["2.tar.gz"]


async def test_an_object_made_anew_under_the_same_name_keeps_its_artifact(bench: Bench) -> None:
    bench.put("app", await bench.upload("app"))

    async with bench.running():
        artifact = await bench.upload("app", "2")
        bench.server.remove(PLURAL, "app", "team")
        bench.put("app", artifact)
        other = await bench.upload("other")
        bench.put("other", other)
        bench.server.remove(PLURAL, "other", "team")
        await until(lambda: not bench.files("other"))

    assert "2.tar.gz" in bench.files("app")


async def test_a_server_that_does_not_answer_costs_nobody_an_artifact(bench: Bench) -> None:
    bench.put("gone", await bench.upload("gone"))
    bench.put("next", await bench.upload("next"))

    async with bench.running():
        bench.server.fail("GET", "externalartifacts/gone", 403, times=10)
        bench.server.remove(PLURAL, "gone", "team")
        bench.server.remove(PLURAL, "next", "team")
        await until(lambda: not bench.files("next"))

    assert bench.files("gone") == ["1.tar.gz"]
