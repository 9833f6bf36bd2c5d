"""A source of any kind that a policy forbids is withdrawn, and its server is not asked."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from controllers.source.family import Family
from controllers.source.source import SUCCEEDED, Fetched, File, Scratch, Upstream
from controllers.source.sources import SOURCES, Row
from crds.meta import Artifact
from tests.fakes.passes import Cluster
from tests.fakes.policing import Policing, policing
from toolkit.artifact.storage import Storage
from toolkit.errors import AccessDeniedError
from toolkit.objects import Json, ObjectKey

ROWS = {row.kind.kind: row for row in SOURCES}


class Upstreams:
    """A server that has one revision, and counts how often it is asked."""

    def __init__(self, row: Row) -> None:
        self.kind = row.kind
        self.asked = 0

    async def resolve(self, _: Any, _scratch: Scratch) -> Upstream:
        self.asked += 1
        return Upstream(revision="v1")

    async def fetch(self, _: Any, upstream: Upstream, into: Path) -> Fetched:
        self.asked += 1
        (into / "file").write_text(upstream.revision)
        return Fetched(filename="v1.tar.gz", summary="", content=File(path=into / "file"))

    def message(self, _: Any, artifact: Artifact) -> str:
        return f"stored {artifact.revision}"

    def reason(self, _: Artifact) -> str:
        return SUCCEEDED


@dataclass
class Informer:
    """A controller as far as its siblings look objects up."""

    objects: dict[ObjectKey, Any] = field(default_factory=dict)

    @property
    def informer(self) -> "Informer":
        return self

    def get(self, key: ObjectKey) -> Any:
        return self.objects.get(key)


class World:
    """One source, what it is made from, the policies, and a store."""

    def __init__(self, root: Path, policies: Policing, objects: Sequence[Json]) -> None:
        self.root = root / "store"
        self.policies = policies
        self.cluster = cluster(self.root, root / "scratch")
        self.cluster.policy = policies.sources
        members: Any = {kind: Informer() for kind in ROWS}
        for body in objects:
            obj: Any = msgspec.convert(body, ROWS[body["kind"]].kind.model)
            members[obj.kind].objects[ObjectKey("team", obj.metadata.name)] = obj
            self.cluster.put(obj)
        self.kind, self.name = objects[0]["kind"], objects[0]["metadata"]["name"]
        row = ROWS[self.kind]
        self.cluster.parents = Family(members=members).parents(row)(self.now)
        self.upstream = Upstreams(row)

    @property
    def now(self) -> Any:
        return self.cluster.objects[self.kind, "team", self.name]

    async def run(self) -> Any:
        """Run a pass, and return the object as it is afterwards."""
        await self.cluster.reconcile(self.upstream.kind, self.upstream, self.now)
        return self.now

    async def refused(self) -> str:
        """Run a pass that a policy ends; return what it says."""
        with pytest.raises(AccessDeniedError) as caught:
            await self.run()
        assert caught.value.reason == "AccessDenied"
        return str(caught.value)


def cluster(store: Path, scratch: Path) -> Any:
    """Return objects whose passes can be given real policies."""
    return Cluster(Storage(store, advertised="store.test"), scratch)


def obj(kind: str, name: str = "app", **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "team", "generation": 1}
    return {"kind": kind, "metadata": metadata, "spec": {"interval": "1h", **spec}}


def chart(**of: Any) -> tuple[Json, ...]:
    reference = {"kind": "HelmRepository", "name": "charts"}
    return (
        obj("HelmChart", chart="app", sourceRef=reference),
        obj("HelmRepository", "charts", **of),
    )


REGISTRY = (obj("OCIRepository", url="oci://evil.example/app"),)
BUCKET = (obj("Bucket", endpoint="evil.example", bucketName="apps"),)
INDEX = (obj("HelmRepository", url="http://evil.example/charts"),)
CHART = chart(url="http://evil.example/charts")
CHART_IN_REGISTRY = chart(url="oci://evil.example/charts", type="oci", insecure=True)
INCLUDING = (
    obj("GitRepository", url="https://git.example/a", include=[{"repository": {"name": "base"}}]),
    obj("GitRepository", "base", url="https://evil.example/base", suspend=True),
)
SIGNED: Json = {"verify": {"cosign": {}}}
CASES: dict[str, tuple[tuple[Json, ...], list[Json], str]] = {
    # what there is, what is allowed, what is said
    "OCIRepository of another registry": (
        REGISTRY,
        [{"kind": "OCIRepository", "urls": ["oci://registry.example/**"]}],
        "allowed are oci://registry.example/**",
    ),
    "OCIRepository that verifies nothing": (
        REGISTRY,
        [{"kind": "OCIRepository", "urls": ["oci://**"], **SIGNED}],
        "spec.verify",
    ),
    "Bucket elsewhere": (
        BUCKET,
        [{"kind": "Bucket", "urls": ["https://s3.example/**"]}],
        "allowed are https://s3.example/**",
    ),
    "kind that is not named": (
        BUCKET,
        [{"kind": "GitRepository", "urls": ["https://git.example/**"]}],
        "Bucket is not allowed here; use one of: GitRepository",
    ),
    "HelmRepository elsewhere": (
        INDEX,
        [
            {"kind": "HelmRepository", "urls": ["https://charts.example/**"]},
            {"kind": "HelmChart"},
        ],
        "allowed are https://charts.example/**",
    ),
    "HelmChart that verifies nothing": (
        CHART,
        [{"kind": "HelmRepository", "urls": ["http://**"]}, {"kind": "HelmChart", **SIGNED}],
        "spec.verify",
    ),
    "HelmChart of a repository elsewhere": (
        CHART,
        [
            {"kind": "HelmRepository", "urls": ["https://charts.example/**"]},
            {"kind": "HelmChart"},
        ],
        "allowed are https://charts.example/**",
    ),
    "HelmChart of another registry": (
        CHART_IN_REGISTRY,
        [
            {"kind": "HelmRepository", "urls": ["oci://registry.example/**"]},
            {"kind": "HelmChart"},
        ],
        "allowed are oci://registry.example/**",
    ),
    "GitRepository that includes one from elsewhere": (
        INCLUDING,
        [{"kind": "GitRepository", "urls": ["https://git.example/**"]}],
        "GitRepository 'team/base': spec.url",
    ),
}
every_kind = pytest.mark.parametrize(("objects", "allowed", "saying"), CASES.values(), ids=CASES)


@pytest_asyncio.fixture
async def policies() -> AsyncIterator[Policing]:
    async with policing() as made:
        yield made


@every_kind
async def test_every_kind_is_withdrawn_while_a_policy_forbids_it(
    tmp_path: Path, policies: Policing, objects: tuple[Json, ...], allowed: list[Json], saying: str
) -> None:
    world = World(tmp_path, policies, objects)
    before = (await world.run()).status.artifact
    asked, stored = world.upstream.asked, world.root / before.path
    kept = stored.exists()

    await policies.put(*allowed)
    message = await world.refused()
    withdrawn, gone, again = world.now.status.artifact, not stored.exists(), world.upstream.asked
    await policies.drop()
    after = (await world.run()).status.artifact

    assert kept
    assert gone
    assert withdrawn is None
    assert again == asked
    assert saying in message
    assert "SourcePolicy 'tenants'" in message
    assert (after.revision, stored.exists()) == (before.revision, True)


@every_kind
async def test_what_admission_did_not_see_is_refused_before_anything_is_fetched(
    tmp_path: Path, policies: Policing, objects: tuple[Json, ...], allowed: list[Json], saying: str
) -> None:
    world = World(tmp_path, policies, objects)
    await policies.put(*allowed)

    assert saying in await world.refused()
    assert world.upstream.asked == 0
    assert world.now.status.artifact is None


async def test_what_a_policy_only_warns_of_is_stored_and_told(
    tmp_path: Path, policies: Policing
) -> None:
    world = World(tmp_path, policies, REGISTRY)
    await policies.put({"kind": "GitRepository", "urls": ["https://git.example/**"]}, mode="Warn")

    after = await world.run()

    (told,) = [e for e in world.cluster.events if e.reason == "SourcePolicyViolated"]
    assert after.status.artifact.revision == "v1"
    assert (told.severity, "SourcePolicy 'tenants'" in told.message) == ("error", True)
