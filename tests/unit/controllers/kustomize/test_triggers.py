"""A change wakes exactly those Kustomizations that use what changed."""

from typing import Any

import msgspec
import pytest

from controllers.grants import Refusals
from controllers.index import Index
from controllers.kustomize.sources import SourceReader
from controllers.kustomize.triggers import Triggers
from crds.kustomize import Kustomization
from crds.source import GitRepository
from tests.fakes.granting import AnySource, allowing
from toolkit.kube.informer import Change
from toolkit.kube.secrets import CONFIG_MAP
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef
from toolkit.policy.grants import Permission

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
KUSTOMIZATION = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")


class Woken(list[tuple[str, str]]):
    """Who was asked to reconcile, and why."""

    def __call__(self, key: ObjectKey, trigger: str) -> None:
        self.append((key.name, trigger))


class Nothing:
    """An informer that knows no objects."""

    def get(self, _: ObjectKey) -> None:
        return None


@pytest.fixture
def woken() -> Woken:
    return Woken()


@pytest.fixture
def triggers(woken: Woken) -> Triggers:
    informers: Any = {"GitRepository": (GIT, Nothing())}  # only get() is used
    reader = SourceReader(informers, policy=allowing(), sources=AnySource())
    return Triggers(KUSTOMIZATION, reader, woken, Refusals())


def kustomization(name: str, *, status: Json | None = None, **spec: object) -> Kustomization:
    body = {
        "metadata": {"name": name, "namespace": "team", "generation": 1},
        "spec": {
            "interval": "1m",
            "prune": True,
            "sourceRef": {"kind": "GitRepository", "name": "app"},
            **spec,
        },
        "status": status or {},
    }
    return msgspec.convert(body, Kustomization)


def repository(revision: str) -> GitRepository:
    artifact = {
        "digest": f"sha256:{revision}",
        "lastUpdateTime": "2026-01-01T00:00:00Z",
        "path": "p",
        "revision": revision,
        "url": "http://localhost/p",
    }
    body = {
        "metadata": {"name": "app", "namespace": "team"},
        "spec": {"url": "https://localhost/app", "interval": "1m"},
        "status": {"artifact": artifact},
    }
    return msgspec.convert(body, GitRepository)


def added(obj: Kustomization) -> Change[Kustomization]:
    key = ObjectKey("team", obj.metadata.name)
    return Change("ADDED", key, None, obj)


def test_new_revision_wakes_who_builds_from_it(triggers: Triggers, woken: Woken) -> None:
    triggers.kustomization(added(kustomization("user")))
    other = {"kind": "GitRepository", "name": "other"}
    triggers.kustomization(added(kustomization("stranger", sourceRef=other)))
    woken.clear()

    change = Change("MODIFIED", ObjectKey("team", "app"), repository("1"), repository("2"))
    triggers.source(GIT)(change)

    assert woken == [("user", "source")]


def test_same_artifact_wakes_nobody(triggers: Triggers, woken: Woken) -> None:
    triggers.kustomization(added(kustomization("user")))
    woken.clear()

    change = Change("MODIFIED", ObjectKey("team", "app"), repository("1"), repository("1"))
    triggers.source(GIT)(change)

    assert woken == []


def test_ready_dependency_wakes_its_dependents(triggers: Triggers, woken: Woken) -> None:
    triggers.kustomization(added(kustomization("dependent", dependsOn=[{"name": "base"}])))
    before = kustomization("base")
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "ReconciliationSucceeded",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    after = kustomization("base", status={"conditions": [condition], "observedGeneration": 1})
    triggers.kustomization(added(before))
    woken.clear()

    triggers.kustomization(Change("MODIFIED", ObjectKey("team", "base"), before, after))

    assert woken == [("dependent", "dependency")]


def test_labelled_config_wakes_who_substitutes_from_it(triggers: Triggers, woken: Woken) -> None:
    variables = {"substituteFrom": [{"kind": "ConfigMap", "name": "vars"}]}
    triggers.kustomization(added(kustomization("user", postBuild=variables)))
    woken.clear()

    triggers.config(CONFIG_MAP)(Change("MODIFIED", ObjectKey("team", "vars"), {}, {}))
    triggers.config(CONFIG_MAP)(Change("MODIFIED", ObjectKey("other", "vars"), {}, {}))

    assert woken == [("user", "config")]


def allowing_all(group: str, kind: str) -> frozenset[Permission]:
    """Return what a grant to every namespace for every object of a kind allows."""
    return frozenset({Permission(KUSTOMIZATION.group, KUSTOMIZATION.kind, "*", group, kind, "")})


def test_grant_wakes_who_needs_it(triggers: Triggers, woken: Woken) -> None:
    theirs = {"kind": "GitRepository", "name": "app", "namespace": "platform"}
    triggers.kustomization(added(kustomization("guest", sourceRef=theirs)))
    needs = {"name": "infra", "namespace": "platform"}
    triggers.kustomization(added(kustomization("waiting", dependsOn=[needs])))
    reading = {**needs, "readyExpr": "dep.status.x == 1"}
    triggers.kustomization(added(kustomization("reading", dependsOn=[reading])))
    triggers.kustomization(added(kustomization("at-home")))
    woken.clear()

    for namespace in ("platform", "team"):
        triggers.grant(namespace, allowing_all(KUSTOMIZATION.group, KUSTOMIZATION.kind))
        triggers.grant(namespace, allowing_all(GIT.group, GIT.kind))

    assert woken == [("reading", "grant"), ("guest", "grant")]


def test_policy_wakes_whom_it_may_concern(triggers: Triggers, woken: Woken) -> None:
    theirs = {"kind": "GitRepository", "name": "app", "namespace": "platform"}
    triggers.kustomization(added(kustomization("guest", sourceRef=theirs)))
    triggers.kustomization(added(kustomization("at-home")))
    told = []
    for namespace in ("platform", "team", "elsewhere", ""):
        woken.clear()
        triggers.policy(namespace)
        told.append({name for name, _ in woken})

    assert told == [{"guest"}, {"guest", "at-home"}, set(), {"guest", "at-home"}]


def test_index_forgets_what_is_used_no_more() -> None:
    index, key = Index(), ObjectKey("team", "app")
    first, second = ObjectRef(GIT, "team", "a"), ObjectRef(GIT, "team", "b")

    index.put(key, [first])
    index.put(key, [second])

    assert index.users(first) == frozenset()
    assert index.users(second) == {key}
    index.put(key, [])
    assert index.users(second) == frozenset()
