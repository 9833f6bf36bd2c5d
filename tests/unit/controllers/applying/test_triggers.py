"""A change wakes exactly those objects that use what changed."""

import msgspec
import pytest

from controllers.applying import dependencies
from controllers.applying.dependencies import Dependent
from controllers.applying.triggers import Triggers, Used
from controllers.grants import Refusals
from controllers.index import Index
from crds.helm import HelmRelease
from crds.kustomize import Kustomization
from crds.meta import ObjectMeta
from crds.source import GitRepository
from tests.fakes.apiserver import FakeApiServer
from toolkit.errors import StalledError
from toolkit.kube.informer import Change, Informer
from toolkit.kube.later import Later
from toolkit.kube.secrets import CONFIG_MAP
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef
from toolkit.policy.grants import Permission

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
RELEASE = GroupVersionKind("helm.toolkit.fluxcd.io", "v2", "HelmRelease")
KUSTOMIZATION = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")


def read_release(body: bytes) -> Dependent:
    return msgspec.json.decode(body, type=HelmRelease)


class Woken(list[tuple[str, str]]):
    """Who was asked to reconcile, and why."""

    def __call__(self, key: ObjectKey, trigger: str) -> None:
        self.append((key.name, trigger))


@pytest.fixture
def woken() -> Woken:
    return Woken()


def used(obj: Kustomization) -> Used:
    """Return the sources of a Kustomization, and the ConfigMaps that it substitutes from."""
    spec, own = obj.spec, obj.metadata.namespace
    configs = spec.post_build.substitute_from if spec.post_build else ()
    return Used(
        configs=tuple(ObjectRef(CONFIG_MAP, own, each.name) for each in configs),
        sources=tuple(
            ObjectRef(GIT, each.namespace or own, each.name) for each in spec.mounts.values()
        ),
    )


@pytest.fixture
def triggers(woken: Woken) -> Triggers[Kustomization]:
    return Triggers(KUSTOMIZATION, woken, Refusals(), uses=used)


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


def test_new_revision_wakes_who_builds_from_it(
    triggers: Triggers[Kustomization], woken: Woken
) -> None:
    triggers.applier(added(kustomization("user")))
    other = {"kind": "GitRepository", "name": "other"}
    triggers.applier(added(kustomization("stranger", sourceRef=other)))
    woken.clear()

    change = Change("MODIFIED", ObjectKey("team", "app"), repository("1"), repository("2"))
    triggers.source(GIT)(change)

    assert woken == [("user", "source")]


def test_same_artifact_wakes_nobody(triggers: Triggers[Kustomization], woken: Woken) -> None:
    triggers.applier(added(kustomization("user")))
    woken.clear()

    change = Change("MODIFIED", ObjectKey("team", "app"), repository("1"), repository("1"))
    triggers.source(GIT)(change)

    assert woken == []


def test_ready_dependency_wakes_its_dependents(
    triggers: Triggers[Kustomization], woken: Woken
) -> None:
    triggers.applier(added(kustomization("dependent", dependsOn=[{"name": "base"}])))
    before = kustomization("base")
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "ReconciliationSucceeded",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    after = kustomization("base", status={"conditions": [condition], "observedGeneration": 1})
    triggers.applier(added(before))
    woken.clear()

    triggers.applier(Change("MODIFIED", ObjectKey("team", "base"), before, after))

    assert woken == [("dependent", "dependency")]


def test_ready_dependency_of_another_kind_wakes_its_dependents(
    triggers: Triggers[Kustomization], woken: Woken
) -> None:
    for name, kind in (("dependent", "HelmRelease"), ("stranger", "Kustomization")):
        needs = [{"name": "base", "kind": kind}]
        triggers.applier(added(kustomization(name, dependsOn=needs)))
    woken.clear()

    release = HelmRelease(metadata=ObjectMeta(name="base", namespace="team"))
    triggers.dependency(RELEASE)(Change("ADDED", ObjectKey("team", "base"), None, release))

    assert woken == [("dependent", "dependency")]


async def test_another_kind_is_watched_once_an_object_depends_on_it(
    triggers: Triggers[Kustomization],
) -> None:
    async with FakeApiServer().running() as client:
        releases = Later(Informer[Dependent](client, RELEASE, decode=read_release))
        triggers.dependencies(releases)

        triggers.applier(added(kustomization("dependent", dependsOn=[{"name": "base"}])))
        needed_for_own = not releases.synced
        other = {"name": "base", "kind": "HelmRelease"}
        triggers.applier(added(kustomization("crossing", dependsOn=[other])))

        assert not needed_for_own
        assert not releases.synced


def test_labelled_config_wakes_who_substitutes_from_it(
    triggers: Triggers[Kustomization], woken: Woken
) -> None:
    variables = {"substituteFrom": [{"kind": "ConfigMap", "name": "vars"}]}
    triggers.applier(added(kustomization("user", postBuild=variables)))
    woken.clear()

    triggers.config(CONFIG_MAP)(Change("MODIFIED", ObjectKey("team", "vars"), {}, {}))
    triggers.config(CONFIG_MAP)(Change("MODIFIED", ObjectKey("other", "vars"), {}, {}))

    assert woken == [("user", "config")]


def allowing_all(group: str, kind: str) -> frozenset[Permission]:
    """Return what a grant to every namespace for every object of a kind allows."""
    return frozenset({Permission(KUSTOMIZATION.group, KUSTOMIZATION.kind, "*", group, kind, "")})


def test_grant_wakes_who_needs_it(triggers: Triggers[Kustomization], woken: Woken) -> None:
    theirs = {"kind": "GitRepository", "name": "app", "namespace": "platform"}
    triggers.applier(added(kustomization("guest", sourceRef=theirs)))
    needs = {"name": "infra", "namespace": "platform"}
    triggers.applier(added(kustomization("waiting", dependsOn=[needs])))
    reading = {**needs, "readyExpr": "dep.status.x == 1"}
    triggers.applier(added(kustomization("reading", dependsOn=[reading])))
    triggers.applier(added(kustomization("at-home")))
    woken.clear()

    for namespace in ("platform", "team"):
        triggers.grant(namespace, allowing_all(KUSTOMIZATION.group, KUSTOMIZATION.kind))
        triggers.grant(namespace, allowing_all(GIT.group, GIT.kind))

    assert woken == [("reading", "grant"), ("guest", "grant")]


def test_policy_wakes_whom_it_may_concern(triggers: Triggers[Kustomization], woken: Woken) -> None:
    theirs = {"kind": "GitRepository", "name": "app", "namespace": "platform"}
    triggers.applier(added(kustomization("guest", sourceRef=theirs)))
    triggers.applier(added(kustomization("at-home")))
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


def test_no_more_dependencies_are_indexed_than_an_object_may_have(
    woken: Woken, triggers: Triggers[Kustomization]
) -> None:
    """60,000 fit into an object, and took a third of a second at each change of it."""
    waiting = kustomization("app", dependsOn=[{"name": f"dep-{n}"} for n in range(60_000)])
    triggers.applier(added(waiting))

    for name in ("dep-999", "dep-1000"):
        triggers.applier(added(kustomization(name)))

    assert woken == [("app", "dependency")]
    with pytest.raises(StalledError, match=r"spec\.dependsOn has 60000 references, more than 1000"):
        dependencies.ready_expressions(waiting)
