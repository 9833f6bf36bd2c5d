"""Which artifacts a generator is fed, and from where it may not be."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

import crds
from controllers.source.generating import inputs
from controllers.source.generating.inputs import InputReader
from crds.extensions import GROUP, ArtifactGenerator
from crds.policy_referencegrant import ReferenceGrant
from tests.fakes.granting import SOURCE, allowing, grant
from tests.fakes.passes import Allowed
from toolkit.errors import AccessDeniedError, StalledError, WaitingError
from toolkit.objects import GroupVersionKind, ObjectKey

ARTIFACT = {
    "digest": "sha256:1",
    "lastUpdateTime": "2026-01-01T00:00:00Z",
    "path": "gitrepository/team/fleet/1.tar.gz",
    "revision": "main@sha1:1",
    "url": "http://x.test/1",
}
MODELS: dict[str, Any] = {kind.kind: kind for kind in crds.KINDS}


@dataclass
class Cache:
    """An informer as far as it is asked."""

    gvk: GroupVersionKind
    objects: dict[ObjectKey, Any] = field(default_factory=dict)

    def get(self, key: ObjectKey) -> Any:
        return self.objects.get(key)


class Cluster:
    """Sources and generators of a test."""

    def __init__(self) -> None:
        kinds = ("GitRepository", "OCIRepository", "ExternalArtifact")
        self.caches = {kind: Cache(GroupVersionKind(*MODELS[kind].gvk)) for kind in kinds}
        self.generators: dict[ObjectKey, ArtifactGenerator] = {}

    def reader(self, *grants: ReferenceGrant) -> InputReader:
        informers: Any = self.caches
        return InputReader(
            informers, self.generators.get, policy=allowing(*grants), sources=Allowed()
        )

    def put(self, kind: str, name: str, *, namespace: str = "team", **body: Any) -> None:
        spec = body.pop("spec", {"url": "https://x.test", "interval": "1m"})
        document = {"metadata": {"name": name, "namespace": namespace}, "spec": spec, **body}
        obj = msgspec.convert(document, MODELS[kind].model)
        self.caches[kind].objects[ObjectKey(namespace, name)] = obj

    def made_by(self, generator: str, name: str) -> None:
        source = {
            "apiVersion": "source.extensions.fluxcd.io/v1beta1",
            "kind": "ArtifactGenerator",
            "name": generator,
        }
        self.put(
            "ExternalArtifact", name, spec={"sourceRef": source}, status={"artifact": ARTIFACT}
        )

    def generator(self, name: str, *sources: dict[str, str]) -> ArtifactGenerator:
        copy = [{"from": f"@{sources[0]['alias']}/**", "to": "@artifact/"}]
        document = {
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"sources": list(sources), "artifacts": [{"name": "out", "copy": copy}]},
        }
        obj = msgspec.convert(document, ArtifactGenerator)
        self.generators[ObjectKey("team", name)] = obj
        return obj


def source(alias: str, kind: str = "GitRepository", name: str = "fleet", **more: str) -> Any:
    return {"alias": alias, "kind": kind, "name": name, **more}


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.put("GitRepository", "fleet", status={"artifact": ARTIFACT})
    cluster.put("GitRepository", "shared", namespace="infra", status={"artifact": ARTIFACT})
    return cluster


def test_sources_are_found_by_their_aliases(cluster: Cluster) -> None:
    obj = cluster.generator("gen", source("a"), source("b", name="shared", namespace="infra"))

    given = grant(
        "infra",
        of={"group": GROUP, "kind": "ArtifactGenerator", "namespace": "team"},
        to={"group": SOURCE, "kind": "GitRepository", "name": "shared"},
    )
    found = cluster.reader(given).resolve(obj)

    assert {alias: str(each.ref) for alias, each in found.items()} == {
        "a": "GitRepository/team/fleet",
        "b": "GitRepository/infra/shared",
    }


def test_a_source_that_does_not_exist_is_waited_for(cluster: Cluster) -> None:
    obj = cluster.generator("gen", source("a", name="none"))

    with pytest.raises(WaitingError, match="GitRepository 'team/none' not found") as caught:
        cluster.reader().resolve(obj)

    assert caught.value.reason == "SourceFetchFailed"


def test_a_source_without_an_artifact_is_waited_for(cluster: Cluster) -> None:
    cluster.put("GitRepository", "young")
    obj = cluster.generator("gen", source("a"), source("b", name="young"))

    with pytest.raises(WaitingError, match="'team/young' has no artifact yet"):
        cluster.reader().resolve(obj)


@pytest.mark.parametrize("name", ["shared", "none"])
def test_another_namespace_is_denied_whether_or_not_there_is_anything(
    cluster: Cluster, name: str
) -> None:
    obj = cluster.generator("gen", source("a"), source("b", name=name, namespace="infra"))

    with pytest.raises(
        AccessDeniedError,
        match=f"'GitRepository/infra/{name}', no ReferenceGrant in namespace 'infra'",
    ) as caught:
        cluster.reader().resolve(obj)

    assert caught.value.reason == "AccessDenied"


def test_a_kind_that_is_not_served_is_told(cluster: Cluster) -> None:
    obj = cluster.generator("gen", source("a", "HelmChart"))

    with pytest.raises(StalledError, match="use one of: ExternalArtifact, GitRepository, OCI"):
        cluster.reader().resolve(obj)


def test_a_generator_is_not_fed_by_its_own_artifact(cluster: Cluster) -> None:
    cluster.made_by("gen", "out")
    obj = cluster.generator("gen", source("a"), source("b", "ExternalArtifact", "out"))

    with pytest.raises(StalledError, match="made from this generator's own artifacts") as caught:
        cluster.reader().resolve(obj)

    assert caught.value.reason == "ValidationFailed"


def test_two_generators_do_not_feed_each_other(cluster: Cluster) -> None:
    cluster.made_by("one", "from-one")
    cluster.made_by("two", "from-two")
    cluster.generator("two", source("x", "ExternalArtifact", "from-one"))
    obj = cluster.generator("one", source("x", "ExternalArtifact", "from-two"))

    with pytest.raises(StalledError, match="made from this generator's own artifacts"):
        cluster.reader().resolve(obj)


def test_a_chain_of_generators_is_no_circle(cluster: Cluster) -> None:
    cluster.made_by("first", "made")
    cluster.generator("first", source("x"))
    obj = cluster.generator("second", source("x", "ExternalArtifact", "made"), source("y"))

    assert set(cluster.reader().resolve(obj)) == {"x", "y"}


def test_the_digest_follows_what_the_sources_hold(cluster: Cluster) -> None:
    obj = cluster.generator("gen", source("a"), source("b"))

    def state() -> str:
        return inputs.digest(cluster.reader().resolve(obj).values())

    before = state()
    cluster.put("GitRepository", "fleet", status={"artifact": ARTIFACT | {"url": "http://moved"}})
    moved = state()
    cluster.put("GitRepository", "fleet", status={"artifact": ARTIFACT | {"digest": "sha256:2"}})
    changed = state()

    assert before == moved
    assert before != changed
    assert before.startswith("sha256:")


def test_the_origin_of_a_git_repository_is_its_revision(cluster: Cluster) -> None:
    told = {"metadata": {"org.opencontainers.image.revision": "main@sha1:9"}}
    cluster.put("OCIRepository", "i", spec=OCI, status={"artifact": ARTIFACT | told})
    cluster.put("OCIRepository", "j", spec=OCI, status={"artifact": ARTIFACT})
    obj = cluster.generator(
        "gen", source("g"), source("i", "OCIRepository", "i"), source("j", "OCIRepository", "j")
    )

    found = cluster.reader().resolve(obj)

    origins = {alias: each.origin for alias, each in found.items()}
    assert origins == {"g": "main@sha1:1", "i": "main@sha1:9", "j": ""}


OCI = {"url": "oci://x.test/i", "interval": "1m"}
