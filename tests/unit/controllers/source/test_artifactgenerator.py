"""Passes over a generator: from what its sources hold to the objects that tell of it, and back.

The builds are made in this process; ``generating/test_builder.py`` has them made in a worker.
"""

import asyncio
import copy
import logging
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

import crds
from controllers.source.artifactgenerator import ArtifactGeneratorReconciler
from controllers.source.generating import inputs
from controllers.source.generating.build import build
from controllers.source.generating.builder import Builder
from controllers.source.generating.inputs import InputReader
from controllers.source.generating.outputs import EXTERNAL, Outputs
from controllers.source.generating.wire import BuildRequest
from crds.extensions import SWITCH, ArtifactGenerator
from crds.meta import Artifact
from crds.source import GitRepository
from crds.source_external import ExternalArtifact
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.passes import Allowed
from tests.tools.waiting import until
from toolkit import telemetry
from toolkit.artifact.fetch import Extracted
from toolkit.artifact.storage import Storage
from toolkit.artifact.store import Owner
from toolkit.errors import (
    AccessDeniedError,
    PenstockError,
    StalledError,
    TransientError,
    WaitingError,
)
from toolkit.kube.client import Client
from toolkit.kube.informer import Informer
from toolkit.kube.reconciliation import Event, Outcome, Reconciliation
from toolkit.objects import GroupVersionKind, Json, ObjectKey
from toolkit.policy.references import References

PLURAL = "externalartifacts"
GIT = GroupVersionKind(*crds.GIT_REPOSITORY.gvk)


class Repositories:
    """GitRepositories with an artifact each, whose files lie unpacked on disk."""

    gvk = GIT

    def __init__(self, root: Path) -> None:
        self._root = root
        self._objects: dict[str, GitRepository] = {}
        self._commits: dict[str, int] = {}
        self.fetched: list[str] = []

    def commit(self, name: str, files: dict[str, str]) -> None:
        """Give a repository one more revision, which holds these files."""
        number = self._commits[name] = self._commits.get(name, 0) + 1
        digest = f"sha256:{name}{number}"
        for path, text in files.items():
            place = self._root / digest / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        artifact = {
            "digest": digest,
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "path": f"gitrepository/team/{name}/{number}.tar.gz",
            "revision": f"main@sha1:{number}",
            "url": "http://store.test/x",
        }
        body = {
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"interval": "1m", "url": "https://git.example/x"},
            "status": {"artifact": artifact},
        }
        self._objects[name] = msgspec.convert(body, GitRepository)

    def get(self, key: ObjectKey) -> GitRepository | None:
        return self._objects.get(key.name)

    @asynccontextmanager
    async def extracted(self, artifact: Artifact, _: Owner) -> AsyncIterator[Extracted]:
        self.fetched.append(artifact.digest)
        yield Extracted(self._root / artifact.digest, 1)


class Here:
    """Workers that are not processes."""

    async def call(self, op: str, payload: bytes, *, flow: str, timeout: float) -> bytes:  # noqa: ARG002, ASYNC109  # the pool's signature
        return msgspec.msgpack.encode(build(msgspec.msgpack.decode(payload, type=BuildRequest)))


class World:
    """One generator, its sources, and a cluster that holds what it makes."""

    def __init__(self, server: FakeApiServer, client: Client, root: Path) -> None:
        self.server = server
        self.events: list[Event] = []
        self.git = Repositories(root / "sources")
        self.store = Storage(root / "store", advertised="store.test")
        self.informer = Informer(
            client, EXTERNAL, decode=msgspec.json.Decoder(ExternalArtifact).decode
        )
        self.known = 0
        informers: Any = {"GitRepository": self.git, EXTERNAL.kind: self.informer}
        policy = References(grants=lambda _: (), enforced=False)
        self.reconciler = ArtifactGeneratorReconciler(
            InputReader(informers, lambda _: None, policy=policy, sources=Allowed()),
            Builder(Here(), self.git),
            Outputs(client, self.store, self.informer),
            policy=policy,
            scratch=root / "scratch",
            known=self._known,
        )
        self.obj = generator()

    async def run(self, *triggers: str) -> Outcome:
        """Run a pass, keep its status, and wait until the cache has what it wrote."""
        rec = self._pass(*triggers)
        try:
            return await self.reconciler.reconcile(rec)
        except PenstockError as error:
            rec.mark("Ready", "False", error.reason, str(error))
            raise
        finally:
            rec.status({"observedGeneration": self.obj.metadata.generation})
            await rec.write()
            await self.settle()

    async def finalize(self) -> None:
        await self.reconciler.finalize(self._pass())
        await self.settle()

    def change(self, obj: ArtifactGenerator) -> None:
        """Edit the generator as its user would."""
        generation = self.obj.metadata.generation + 1
        metadata = msgspec.structs.replace(obj.metadata, generation=generation)
        self.obj = msgspec.structs.replace(obj, metadata=metadata, status=self.obj.status)

    def content(self, name: str) -> dict[str, str]:
        """Return the files of the artifact that an object tells of."""
        with tarfile.open(self.store.path(self.artifact(name))) as archive:
            return {
                member.name: archive.extractfile(member).read().decode()  # type: ignore[union-attr]  # a file
                for member in archive.getmembers()
                if member.isfile()
            }

    def artifact(self, name: str) -> Artifact:
        return msgspec.convert(self.made[name]["status"]["artifact"], Artifact)

    @property
    def made(self) -> dict[str, Any]:
        """Return the ExternalArtifacts by name."""
        objects = self.server.objects.items()
        return {name: obj for (plural, _, name), obj in objects if plural == PLURAL}

    @property
    def versions(self) -> dict[str, str]:
        return {name: obj["metadata"]["resourceVersion"] for name, obj in self.made.items()}

    async def settle(self) -> None:
        """Wait until the informer has seen what the server has."""

        def seen() -> bool:
            items = self.informer.items().values()
            return {e.metadata.name: e.metadata.resource_version for e in items} == self.versions

        await until(seen)

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def _pass(self, *triggers: str) -> Reconciliation[ArtifactGenerator]:
        return Reconciliation(
            self.obj,
            inputs.KIND,
            id="pass",
            triggers=frozenset(triggers),
            recorder=self,
            log=telemetry.ObjectLogger(logging.getLogger(__name__), {}),
            write_status=self._write,
        )

    async def _write(self, obj: ArtifactGenerator, body: Json) -> ArtifactGenerator:
        status = {**msgspec.to_builtins(obj.status), **body}
        kept = {key: value for key, value in status.items() if value is not None}
        self.obj = msgspec.structs.replace(obj, status=msgspec.convert(kept, type(obj.status)))
        return self.obj

    async def _known(self) -> None:
        self.known += 1


def output(name: str, *copies: tuple[str, str], **fields: str) -> Json:
    return {"name": name, "copy": [{"from": a, "to": b} for a, b in copies], **fields}


WEB = output("web", ("@app/apps/web/**", "@artifact/"), originRevision="@app")
DB = output("db", ("@app/apps/db/**", "@artifact/"))
FLEET = {"apps/web/web.yaml": "web: 1\n", "apps/db/db.yaml": "db: 1\n", "README.md": "no tarball"}


def generator(
    *outputs: Json, sources: str = "app", annotations: Json | None = None, **spec: Any
) -> ArtifactGenerator:
    metadata = {"name": "gen", "namespace": "team", "uid": "uid-gen", "generation": 1}
    body = {
        "metadata": metadata | {"annotations": annotations or {}},
        "spec": {
            "sources": [{"alias": s, "kind": "GitRepository", "name": s} for s in sources.split()],
            "artifacts": list(outputs) or [WEB, DB],
            **spec,
        },
    }
    return msgspec.convert(body, ArtifactGenerator)


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    server = FakeApiServer()
    server.kinds[(EXTERNAL.group, EXTERNAL.version, PLURAL)] = EXTERNAL.kind
    async with server.running() as client:
        made = World(server, client, tmp_path)
        made.git.commit("app", FLEET)
        watching = asyncio.create_task(made.informer.run())
        await made.informer.wait_synced()
        yield made
        watching.cancel()
        await asyncio.wait([watching])


async def test_a_source_without_a_grant_is_used_and_told_where_that_is_only_warned_of(
    world: World,
) -> None:
    obj = generator()
    theirs = msgspec.structs.replace(obj.spec.sources[0], namespace="platform")
    spec = msgspec.structs.replace(obj.spec, sources=[theirs])
    world.change(msgspec.structs.replace(obj, spec=spec))

    await world.run()

    assert sorted(world.made) == ["db", "web"]
    (told,) = [event for event in world.events if event.reason == "GrantMissing"]
    assert told.message.startswith("spec.sources[0]: can't access 'GitRepository/platform/app'")


async def test_several_sources_become_one_artifact(world: World) -> None:
    values = {"chart/values.yaml": "a: 1\nb: {c: 1, d: [1]}\n", "chart/Chart.yaml": "name: x\n"}
    world.git.commit("base", values)
    world.git.commit("over", {"prod.yaml": "b: {d: [2], e: 3}\n"})
    merge = {"from": "@over/prod.yaml", "to": "@artifact/chart/values.yaml", "strategy": "Merge"}
    composed = output("all", ("@base/", "@artifact/"), revision="@over")
    composed["copy"].append(merge)
    world.change(generator(composed, sources="base over"))

    outcome = await world.run()

    assert outcome.message == "reconciliation succeeded, generated 1 artifact(s)"
    assert world.artifact("all").revision == "main@sha1:1"
    assert world.content("all") == {
        "chart/Chart.yaml": "name: x\n",
        "chart/values.yaml": "a: 1\nb:\n  c: 1\n  d:\n  - 2\n  e: 3\n",
    }


async def test_a_change_reaches_only_the_artifact_that_it_concerns(world: World) -> None:
    await world.run()
    before = world.versions
    world.git.commit("app", FLEET | {"apps/web/web.yaml": "web: 2\n"})

    await world.run()

    changed = {name for name, version in world.versions.items() if version != before[name]}
    assert changed == {"web"}
    assert world.content("web") == {"web.yaml": "web: 2\n"}
    assert world.artifact("web").metadata == {inputs.ORIGIN: "main@sha1:2"}
    assert [entry.name for entry in world.obj.status.inventory] == ["db", "web"]


async def test_a_missing_source_is_waited_for_and_named(world: World) -> None:
    world.change(generator(WEB, sources="late app"))

    with pytest.raises(WaitingError, match="GitRepository 'team/late' not found") as caught:
        await world.run()
    world.git.commit("late", {})
    await world.run()

    assert caught.value.reason == "SourceFetchFailed"
    assert set(world.made) == {"web"}


INVALID = [
    ({"from": "@app/../../etc/passwd"}, "points outside its root"),
    ({"to": "@artifact/../../x"}, "points outside its root"),
    ({"from": "@other/x"}, "no source with the alias 'other'"),
]
IMPOSSIBLE = [
    ({"from": "@app/none"}, "artifact 'web': '@app/none' does not exist"),
    ({"strategy": "Extract", "from": "@app/README.md"}, "is not a tarball"),
]


@pytest.mark.parametrize(("change", "saying"), INVALID, ids=["from", "to", "alias"])
async def test_a_spec_that_cannot_work_stalls_before_anything_is_looked_at(
    world: World, change: dict[str, str], saying: str
) -> None:
    wrong = output("web", ("@app/**", "@artifact/"))
    wrong["copy"][0] |= change
    world.change(generator(wrong))

    with pytest.raises(StalledError, match=saying) as caught:
        await world.run()

    assert caught.value.reason == "ValidationFailed"
    assert (world.known, world.git.fetched, world.made) == (0, [], {})


@pytest.mark.parametrize(("change", "saying"), IMPOSSIBLE, ids=["missing", "extract"])
async def test_what_cannot_be_built_leaves_everything_as_it_is(
    world: World, change: dict[str, str], saying: str
) -> None:
    await world.run()
    before, inventory = world.versions, world.obj.status.inventory
    wrong = output("web", ("@app/**", "@artifact/"))
    wrong["copy"][0] |= change
    world.change(generator(wrong))

    with pytest.raises(TransientError, match=saying) as caught:
        await world.run()

    assert caught.value.reason == "BuildFailed"
    assert world.versions == before
    assert world.obj.status.inventory == inventory


async def test_a_generator_that_is_switched_off_stays_as_it_is(world: World) -> None:
    await world.run()
    before, versions = world.obj.status, world.versions
    world.git.commit("app", FLEET | {"apps/web/web.yaml": "web: 2\n"})
    world.change(generator(annotations={SWITCH: "Disabled"}))

    outcome = await world.run("requested")
    off = world.versions
    world.change(generator(annotations={SWITCH: "enabled"}))
    await world.run()

    assert outcome.untouched
    assert "disabled by the annotation" in outcome.message
    assert off == versions
    assert before.inventory != world.obj.status.inventory
    assert world.content("web") == {"web.yaml": "web: 2\n"}


async def test_another_look_at_the_same_sources_writes_nothing(world: World) -> None:
    await world.run()
    before, fetched = world.versions, len(world.git.fetched)

    quiet = await world.run()
    looked = len(world.git.fetched)
    asked = await world.run("requested")

    assert (quiet.quiet, asked.quiet) == (True, False)
    assert looked == fetched
    assert world.versions == before
    assert [event.reason for event in world.events] == ["Succeeded", "ArtifactUpToDate"]


async def test_what_somebody_deletes_or_changes_is_set_right(world: World) -> None:
    await world.run()
    wanted = {name: world.artifact(name).digest for name in ("db", "web")}
    forged = copy.deepcopy(world.made["db"])
    forged["status"]["artifact"]["digest"] = "sha256:forged"
    world.server.remove(PLURAL, "web", "team")
    world.server.put(PLURAL, "db", "team", **forged)
    await world.settle()

    await world.run("drift")

    assert {name: world.artifact(name).digest for name in ("db", "web")} == wanted


async def test_directories_become_artifacts_and_leave_with_them(world: World) -> None:
    fleet = output("x-{name}", ("@app/apps/{name}/**", "@artifact/"))
    labels = {"labels": {"team": "one"}}
    world.change(generator(fleet, pathPattern="@app/apps/{name}", commonMetadata=labels))
    await world.run()
    first = set(world.made)
    world.git.commit("app", {"apps/web/web.yaml": "web: 1\n", "apps/new/new.yaml": "new: 1\n"})

    await world.run()

    assert (first, set(world.made)) == ({"x-db", "x-web"}, {"x-new", "x-web"})
    assert [entry.name for entry in world.obj.status.inventory] == ["x-new", "x-web"]
    marks = world.made["x-new"]["metadata"]["labels"]
    assert (marks["name"], marks["team"]) == ("new", "one")


async def test_an_artifact_of_somebody_else_is_never_overwritten(world: World) -> None:
    spec = {"sourceRef": {"kind": "Postgres", "name": "rows"}}
    world.server.put(PLURAL, "web", "team", spec=spec)
    await world.settle()
    before = world.versions

    with pytest.raises(AccessDeniedError, match="belongs to Postgres 'rows' and is not overwr"):
        await world.run()
    await world.finalize()

    assert world.versions == before
    assert world.obj.status.inventory == []


async def test_a_deleted_generator_takes_everything_along(world: World) -> None:
    await world.run()
    spec = {"sourceRef": {"kind": "Postgres", "name": "rows"}}
    world.server.put(PLURAL, "theirs", "team", spec=spec)
    await world.settle()

    await world.finalize()

    assert set(world.made) == {"theirs"}
