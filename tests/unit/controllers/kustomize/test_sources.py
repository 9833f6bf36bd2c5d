"""Which artifacts a Kustomization is built from, and how their revision reads."""

from typing import Any

import msgspec
import pytest

from controllers.kustomize.sources import Mount, SourceReader, Sources
from crds.kustomize import Kustomization
from crds.meta import VERIFIED
from crds.policy_referencegrant import ReferenceGrant
from crds.source import GitRepository
from tests.fakes.granting import KUSTOMIZE, SOURCE, AnySource, allowing, grant
from toolkit.errors import AccessDeniedError, StalledError, WaitingError
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")


class Cache:
    """An informer of GitRepositories."""

    def __init__(self, **revisions: str | None) -> None:
        self._found = {
            ObjectKey("team", name): repository(name, revision)
            for name, revision in revisions.items()
        }

    def get(self, key: ObjectKey) -> GitRepository | None:
        return self._found.get(key)


def repository(name: str, revision: str | None) -> GitRepository:
    status: Json = {}
    if revision:
        status["artifact"] = {
            "digest": f"sha256:{revision.rpartition(chr(58))[2]}",
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "path": "p",
            "revision": revision,
            "url": "http://localhost/p",
        }
    body = {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"url": "https://localhost/app", "interval": "1m"},
        "status": status,
    }
    return msgspec.convert(body, GitRepository)


def kustomization(**spec: object) -> Kustomization:
    body = {
        "metadata": {"name": "app", "namespace": "team"},
        "spec": {"interval": "1m", "prune": True, **spec},
    }
    return msgspec.convert(body, Kustomization)


def ref(name: str, **more: str) -> Json:
    return {"kind": "GitRepository", "name": name, **more}


def reader(cache: Cache, *grants: ReferenceGrant, refusing: str = "") -> SourceReader:
    informers: Any = {"GitRepository": (GIT, cache)}  # only get() is used
    return SourceReader(informers, policy=allowing(*grants), sources=AnySource(refusing))


def test_one_source_gives_its_own_revision() -> None:
    sources = reader(Cache(app="main@sha1:1")).resolve(kustomization(sourceRef=ref("app")))

    assert sources.revision == "main@sha1:1"
    assert [mount.path for mount in sources.mounts] == [""]


def test_composed_revision_names_every_part() -> None:
    obj = kustomization(sourceRef=ref("app"), sourceRefs=[ref("base", path="vendor/base")])

    sources = reader(Cache(app="main@sha1:1", base="v2@sha1:2")).resolve(obj)

    assert sources.revision == "main@sha1:1, vendor/base=v2@sha1:2"
    assert sources.primary.ref.name == "app"


def test_mounted_sources_alone_make_a_build() -> None:
    obj = kustomization(sourceRefs=[ref(name, path=f"parts/{name}") for name in ("left", "right")])

    sources = reader(Cache(left="v1@sha1:1", right="v2@sha1:2")).resolve(obj)

    assert [mount.path for mount in sources.mounts] == ["parts/left", "parts/right"]
    assert sources.revision == "parts/left=v1@sha1:1, parts/right=v2@sha1:2"
    assert sources.primary.ref.name == "left"


@pytest.mark.parametrize(
    ("signers", "claimed"),
    [((None,), ""), (("me",), "me"), (("me", "you"), "me"), (("me", None), ""), ((None, "me"), "")],
)
def test_one_unverified_part_of_a_composed_build_voids_the_claim(
    signers: tuple[str | None, ...], claimed: str
) -> None:
    parts = []
    for path, signer in enumerate(signers):
        artifact = repository("app", "main@sha1:1").status.artifact
        assert artifact is not None
        signed = msgspec.structs.replace(artifact, metadata={VERIFIED: signer} if signer else {})
        where = ObjectRef(GIT, "team", "app")
        parts.append(Mount(path=f"part{path}" if path else "", ref=where, artifact=signed))

    assert Sources(mounts=tuple(parts)).origin.verified == claimed


@pytest.mark.parametrize(
    ("source", "applied", "current"),
    [("app", "main@sha1:1", True), ("app", "main@sha1:0", False), ("infra", "v1@sha1:9", True)],
    ids=["the same", "an older one", "of another source"],
)
def test_another_has_to_have_applied_the_revision_of_the_same_source(
    source: str, applied: str, *, current: bool
) -> None:
    obj, asked = kustomization(sourceRef=ref("app")), reader(Cache(app="main@sha1:1"))
    other = kustomization(sourceRef=ref(source))
    status = msgspec.structs.replace(other.status, last_applied_revision=applied)
    other = msgspec.structs.replace(other, status=status)

    assert asked.current(obj, asked.resolve(obj), other) == current


def test_missing_source_is_waited_for_and_named() -> None:
    with pytest.raises(WaitingError, match="GitRepository 'team/app' not found") as caught:
        reader(Cache()).resolve(kustomization(sourceRef=ref("app")))

    assert caught.value.reason == "ArtifactFailed"


def test_source_without_artifact_is_waited_for() -> None:
    with pytest.raises(WaitingError) as caught:
        reader(Cache(app=None)).resolve(kustomization(sourceRef=ref("app")))

    assert str(caught.value) == (
        "Source artifact not found: see the condition Ready of GitRepository 'team/app'"
    )
    assert caught.value.reason == "ArtifactFailed"


def test_unserved_kind_stalls_and_names_those_that_are() -> None:
    with pytest.raises(StalledError, match="'Bucket' is not supported here; use one of: Git"):
        reader(Cache()).resolve(kustomization(sourceRef={"kind": "Bucket", "name": "b"}))


@pytest.mark.parametrize("field", ["sourceRef", "sourceRefs"])
def test_denial_across_namespaces_is_the_same_whether_the_target_exists(field: str) -> None:
    denials = []
    for name in ("app", "nothing"):
        there = ref(name, namespace="other")
        spec = {"sourceRef": there, "sourceRefs": [{**there, "path": "theirs"}]}
        obj = kustomization(**{"sourceRef": ref("app"), field: spec[field]})
        with pytest.raises(AccessDeniedError) as caught:
            reader(Cache(app="main@sha1:1")).resolve(obj)
        denials.append(str(caught.value).replace(name, "X"))

    assert denials[0] == denials[1]


def test_granted_source_of_another_namespace_is_looked_up() -> None:
    given = grant(
        "other",
        of={"group": KUSTOMIZE, "kind": "Kustomization", "namespace": "team"},
        to={"group": SOURCE, "kind": "GitRepository"},
    )
    obj = kustomization(sourceRef=ref("app", namespace="other"))

    with pytest.raises(WaitingError, match="'other/app' not found"):
        reader(Cache(), given).resolve(obj)


@pytest.mark.parametrize("field", ["sourceRef", "sourceRefs"])
def test_the_flag_forbids_a_granted_source_of_another_namespace(field: str) -> None:
    given = grant(
        "other",
        of={"group": KUSTOMIZE, "kind": "Kustomization", "namespace": "team"},
        to={"group": SOURCE, "kind": "GitRepository"},
    )
    there = ref("app", namespace="other")
    spec = {"sourceRef": there, "sourceRefs": [{**there, "path": "theirs"}]}
    obj = kustomization(**{"sourceRef": ref("app"), field: spec[field]})
    informers: Any = {"GitRepository": (GIT, Cache(app="main@sha1:1"))}
    forbidding = SourceReader(
        informers, policy=allowing(given, cross_namespace=False), sources=AnySource()
    )

    with pytest.raises(AccessDeniedError, match="cross-namespace references have been blocked"):
        forbidding.resolve(obj)


@pytest.mark.parametrize(("kind", "verified"), [("GitRepository", "me"), ("ExternalArtifact", "")])
def test_third_parties_cannot_claim_that_somebody_signed(kind: str, verified: str) -> None:
    artifact = repository("app", "main@sha1:1").status.artifact
    assert artifact is not None
    claimed = msgspec.structs.replace(artifact, metadata={VERIFIED: "me"})
    ref = ObjectRef(GroupVersionKind(GIT.group, "v1", kind), "team", "app")

    assert Mount(path="", ref=ref, artifact=claimed).verified == verified


def test_source_that_a_policy_forbids_is_not_used_although_it_has_an_artifact() -> None:
    cache = Cache(app="main@sha1:1")

    with pytest.raises(AccessDeniedError, match="'app' is forbidden"):
        reader(cache, refusing="app").resolve(kustomization(sourceRef=ref("app")))
