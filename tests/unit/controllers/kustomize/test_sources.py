"""Which artifacts a Kustomization is built from, and how their revision reads."""

import msgspec
import pytest

from controllers.kustomize.sources import SourceReader
from crds.kustomize import Kustomization
from crds.source import GitRepository
from toolkit.errors import AccessDeniedError, StalledError, WaitingError
from toolkit.objects import GroupVersionKind, Json, ObjectKey

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


def reader(cache: Cache, *, cross_namespace: bool = True) -> SourceReader:
    return SourceReader({"GitRepository": (GIT, cache)}, cross_namespace=cross_namespace)  # type: ignore[dict-item]  # only get() is used


def test_one_source_gives_its_own_revision() -> None:
    sources = reader(Cache(app="main@sha1:1")).resolve(kustomization(sourceRef=ref("app")))

    assert sources.revision == "main@sha1:1"
    assert [mount.path for mount in sources.mounts] == [""]


def test_composed_revision_names_every_part() -> None:
    obj = kustomization(sourceRef=ref("app"), sourceRefs=[ref("base", path="vendor/base")])

    sources = reader(Cache(app="main@sha1:1", base="v2@sha1:2")).resolve(obj)

    assert sources.revision == "main@sha1:1, vendor/base=v2@sha1:2"
    assert sources.primary.ref.name == "app"


def test_missing_source_is_waited_for_and_named() -> None:
    with pytest.raises(WaitingError, match="GitRepository 'team/app' not found"):
        reader(Cache()).resolve(kustomization(sourceRef=ref("app")))


def test_source_without_artifact_is_waited_for() -> None:
    with pytest.raises(WaitingError, match="artifact not found") as caught:
        reader(Cache(app=None)).resolve(kustomization(sourceRef=ref("app")))

    assert caught.value.reason == "ArtifactFailed"


def test_unserved_kind_stalls_and_names_those_that_are() -> None:
    with pytest.raises(StalledError, match="'Bucket' is not supported here; use one of: Git"):
        reader(Cache()).resolve(kustomization(sourceRef={"kind": "Bucket", "name": "b"}))


def test_denial_across_namespaces_is_the_same_whether_the_target_exists() -> None:
    denials = []
    for name in ("app", "nothing"):
        obj = kustomization(sourceRef=ref(name, namespace="other"))
        with pytest.raises(AccessDeniedError) as caught:
            reader(Cache(app="main@sha1:1"), cross_namespace=False).resolve(obj)
        denials.append(str(caught.value).replace(name, "X"))

    assert denials[0] == denials[1]
