"""ExternalArtifacts are written when they differ, and only those that are the generator's."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

import crds
from controllers.source.generating.inputs import Input
from controllers.source.generating.outputs import GENERATOR, MANAGED_BY, Outputs
from controllers.source.generating.wire import BuiltArtifact
from crds.extensions import ArtifactGenerator, GeneratedArtifact
from crds.meta import Artifact
from crds.source_external import ExternalArtifact
from tests.fakes.apiserver import FakeApiServer
from toolkit.artifact.storage import Storage
from toolkit.errors import AccessDeniedError
from toolkit.kube.client import Client
from toolkit.kube.informer import Informer
from toolkit.objects import GroupVersionKind, ObjectRef

EXTERNAL = GroupVersionKind(*crds.EXTERNAL_ARTIFACT.gvk)
PLURAL = "externalartifacts"
ORIGIN = "org.opencontainers.image.revision"


class Bench:
    """A generator's outputs against a fake server and a store on disk."""

    def __init__(self, server: FakeApiServer, client: Client, root: Path) -> None:
        self.server = server
        self.root = root
        self.store = Storage(root / "store", advertised="localhost")
        self.informer = Informer(
            client, EXTERNAL, decode=msgspec.json.Decoder(ExternalArtifact).decode
        )
        self.outputs = Outputs(client, self.store, self.informer)
        self.inventory: dict[str, GeneratedArtifact] = {}

    def built(self, name: str, content: str = "1", **fields: Any) -> BuiltArtifact:
        tree = self.root / f"tree-{name}-{content}"
        tree.mkdir(exist_ok=True)
        (tree / "a.yaml").write_text(content)
        return BuiltArtifact(
            name=name, directory=str(tree), digest=f"d{content}", files=1, **fields
        )

    async def write(self, *built: BuiltArtifact, **spec: Any) -> tuple[str, ...]:
        changed = await self.outputs.write(generator(**spec), built, INPUTS, self.inventory)
        await self.settle()
        return changed

    async def settle(self) -> None:
        """Wait until the informer has seen what the server has."""
        pause = 0.001
        async with asyncio.timeout(60):
            while self.seen() != self.stored():
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.1)

    def seen(self) -> dict[str, str]:
        items = self.informer.items().values()
        return {each.metadata.name: each.metadata.resource_version for each in items}

    def stored(self) -> dict[str, str]:
        return {
            name: obj["metadata"]["resourceVersion"]
            for (plural, _, name), obj in self.server.objects.items()
            if plural == PLURAL
        }

    def object(self, name: str = "app") -> Any:
        return self.server.objects[(PLURAL, "team", name)]

    @property
    def writes(self) -> int:
        return sum(method != "GET" for method, _, _ in self.server.requests)

    def foreign(self, name: str, **metadata: Any) -> None:
        meta = {"name": name, "namespace": "team", "uid": "other", "generation": 1, **metadata}
        spec = {"sourceRef": {"kind": "Postgres", "name": "rows"}}
        body = {"apiVersion": EXTERNAL.api_version, "kind": EXTERNAL.kind, "metadata": meta}
        self.server._store(PLURAL, None, {**body, "spec": spec})


INPUTS = {
    "git": Input(
        alias="git",
        ref=ObjectRef(GroupVersionKind(*crds.GIT_REPOSITORY.gvk), "team", "fleet"),
        artifact=Artifact(
            digest="sha256:1",
            last_update_time="2026-01-01T00:00:00Z",
            path="gitrepository/team/fleet/1.tar.gz",
            revision="main@sha1:1",
            url="http://x.test/1",
        ),
    )
}


def generator(*, uid: str = "uid-gen", **spec: Any) -> ArtifactGenerator:
    source = {"alias": "git", "kind": "GitRepository", "name": "fleet"}
    output = {"name": "app", "copy": [{"from": "@git/**", "to": "@artifact/"}]}
    document = {
        "metadata": {"name": "gen", "namespace": "team", "uid": uid},
        "spec": {"sources": [source], "artifacts": [output], **spec},
    }
    return msgspec.convert(document, ArtifactGenerator)


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    server = FakeApiServer()
    server.kinds[(EXTERNAL.group, EXTERNAL.version, PLURAL)] = EXTERNAL.kind
    async with server.running() as client:
        bench = Bench(server, client, tmp_path)
        watching = asyncio.create_task(bench.informer.run())
        await bench.informer.wait_synced()
        yield bench
        watching.cancel()
        await asyncio.wait([watching])


async def test_an_artifact_is_told_by_its_object(bench: Bench) -> None:
    changed = await bench.write(bench.built("app", origin="git"))

    obj = bench.object()
    artifact = obj["status"]["artifact"]
    assert changed == ("app",)
    assert obj["metadata"]["labels"] == {GENERATOR: "uid-gen", MANAGED_BY: "source-watcher"}
    assert obj["spec"]["sourceRef"] == {
        "apiVersion": "source.extensions.fluxcd.io/v1beta1",
        "kind": "ArtifactGenerator",
        "name": "gen",
        "namespace": "team",
    }
    assert artifact["revision"] == f"latest@{artifact['digest']}"
    assert artifact["path"] == "externalartifact/team/app/d1.tar.gz"
    assert artifact["metadata"] == {ORIGIN: "main@sha1:1"}
    (ready,) = obj["status"]["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "Succeeded")
    assert await bench.store.intact(msgspec.convert(artifact, Artifact))
    assert bench.inventory["app"] == GeneratedArtifact(
        name="app", namespace="team", digest=artifact["digest"], filename="d1.tar.gz"
    )


async def test_a_revision_can_be_a_sources(bench: Bench) -> None:
    await bench.write(bench.built("app", revision="git"))

    assert bench.object()["status"]["artifact"]["revision"] == "main@sha1:1"


async def test_labels_and_annotations_are_set_and_cannot_take_the_owners_place(
    bench: Bench,
) -> None:
    common = {"labels": {"team": "web", GENERATOR: "forged"}, "annotations": {"note": "hi"}}

    await bench.write(bench.built("app", labels={"app": "auth"}), commonMetadata=common)

    meta = bench.object()["metadata"]
    assert meta["labels"] == {
        "team": "web",
        "app": "auth",
        GENERATOR: "uid-gen",
        MANAGED_BY: "source-watcher",
    }
    assert meta["annotations"] == {"note": "hi"}


async def test_what_is_unchanged_is_not_written_again(bench: Bench) -> None:
    await bench.write(bench.built("app"), bench.built("other"))
    before = bench.writes

    changed = await bench.write(bench.built("app"), bench.built("other", "2"))

    assert changed == ("other",)
    assert bench.writes == before + 1  # the status of the other


async def test_an_artifact_that_went_from_the_store_is_stored_again(bench: Bench) -> None:
    await bench.write(bench.built("app"))
    artifact = msgspec.convert(bench.object()["status"]["artifact"], Artifact)
    bench.store.path(artifact).unlink()

    await bench.write(bench.built("app"))

    assert await bench.store.intact(artifact)


async def test_what_somebody_changed_is_set_right(bench: Bench) -> None:
    await bench.write(bench.built("app"))

    def meddle(obj: Any) -> None:
        obj["metadata"]["labels"][MANAGED_BY] = "me"
        obj["status"]["artifact"]["digest"] = "sha256:evil"

    obj = bench.object()
    meddle(obj)
    bench.server._store(PLURAL, obj, obj)
    await bench.settle()
    await bench.write(bench.built("app"))

    assert bench.object()["metadata"]["labels"][MANAGED_BY] == "source-watcher"
    assert bench.object()["status"]["artifact"]["digest"] == bench.inventory["app"].digest


async def test_an_object_of_somebody_else_is_never_overwritten(bench: Bench) -> None:
    bench.foreign("taken")
    await bench.settle()
    before = bench.writes

    with pytest.raises(
        AccessDeniedError,
        match=r"'team/taken' belongs to Postgres 'rows' and is not overwritten: give the artifact",
    ):
        await bench.write(bench.built("app"), bench.built("taken"))

    assert bench.writes == before
    assert bench.inventory == {}
    assert "status" not in bench.object("taken")


async def test_another_generators_object_is_somebody_elses(bench: Bench) -> None:
    bench.foreign("taken", labels={GENERATOR: "uid-another"})
    await bench.settle()

    with pytest.raises(AccessDeniedError, match="belongs to Postgres"):
        await bench.write(bench.built("taken"))


async def test_an_object_made_behind_our_back_is_not_overwritten(bench: Bench) -> None:
    bench.server.deaf = True
    bench.foreign("taken")

    with pytest.raises(AccessDeniedError, match="'team/taken' belongs to Postgres 'rows'"):
        await bench.outputs.write(generator(), [bench.built("taken")], INPUTS, bench.inventory)

    assert "status" not in bench.object("taken")


async def test_a_restored_generator_takes_its_objects_back(bench: Bench) -> None:
    await bench.write(bench.built("app"))

    await bench.outputs.write(generator(uid="new"), [bench.built("app")], INPUTS, bench.inventory)

    assert bench.object()["metadata"]["labels"][GENERATOR] == "new"


async def test_only_own_objects_are_deleted(bench: Bench) -> None:
    await bench.write(bench.built("app"), bench.built("stays"))
    bench.foreign("theirs")
    await bench.settle()

    await bench.outputs.delete(generator(), ["app", "theirs", "gone"])

    assert set(bench.stored()) == {"stays", "theirs"}


async def test_everything_owned_is_found_without_an_inventory(bench: Bench) -> None:
    await bench.write(bench.built("app"), bench.built("other"))
    bench.foreign("theirs")
    await bench.settle()

    assert bench.outputs.owned(generator()) == {"app", "other"}


async def test_drift_is_noticed(bench: Bench) -> None:
    await bench.write(bench.built("app"))
    obj = msgspec.structs.replace(
        generator(),
        status=crds.extensions.ArtifactGeneratorStatus(inventory=[*bench.inventory.values()]),
    )
    before = await bench.outputs.intact(obj)
    bench.server.remove(PLURAL, "app", "team")
    await bench.settle()

    assert before
    assert not await bench.outputs.intact(obj)
