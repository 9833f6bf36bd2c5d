"""Which state of its dependencies lets a Kustomization proceed, and what it says while it waits."""

from typing import Any

import msgspec
import pytest

from controllers.kustomize import dependencies
from controllers.kustomize.dependencies import Gate
from controllers.kustomize.sources import Mount, SourceReader, Sources
from crds.kustomize import Kustomization
from crds.meta import Artifact
from crds.policy_referencegrant import ReferenceGrant
from tests.fakes.granting import KUSTOMIZE, AnySource, allowing, grant
from toolkit.errors import AccessDeniedError, StalledError, WaitingError
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
REVISION = "main@sha1:1"
READY = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": ""}
ARTIFACT = Artifact(digest="sha256:1", last_update_time="", path="", revision=REVISION, url="")
BUILT_FROM = Sources(mounts=(Mount(path="", ref=ObjectRef(GIT, "team", "app"), artifact=ARTIFACT),))


def kustomization(name: str, *depends: Json, ready: bool = True, **fields: Any) -> Kustomization:
    """Return a Kustomization of generation 2; the fields are of its status."""
    source = fields.pop("source", "app")
    labels = fields.pop("labels", {})
    namespace = fields.pop("namespace", "team")
    condition = READY | {"status": "True" if ready else "False"}
    status = {
        "observedGeneration": 2,
        "lastAppliedRevision": REVISION,
        "conditions": [condition | {"lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }
    body = {
        "metadata": {"name": name, "namespace": namespace, "generation": 2, "labels": labels},
        "spec": {
            "interval": "1m",
            "prune": True,
            "sourceRef": {"kind": "GitRepository", "name": source},
            "dependsOn": list(depends),
        },
        "status": status | fields,
    }
    return msgspec.convert(body, Kustomization)


def gate(
    *others: Kustomization, grants: tuple[ReferenceGrant, ...] = (), cross: bool = True
) -> Gate:
    policy = allowing(*grants, cross_namespace=cross)
    informers: Any = {"GitRepository": (GIT, None)}  # nothing is looked up
    known = {ObjectKey(each.metadata.namespace, each.metadata.name): each for each in others}
    reader = SourceReader(informers, policy=policy, sources=AnySource())
    return Gate(lookup=known.get, sources=reader, policy=policy)


APP = kustomization("app", {"name": "base"})


def test_ready_dependency_lets_the_pass_through() -> None:
    gate(kustomization("base")).require_ready(APP, BUILT_FROM)


@pytest.mark.parametrize(
    "base",
    [
        kustomization("base", ready=False),
        kustomization("base", observedGeneration=1),
        kustomization("base", conditions=[]),
        kustomization("base", lastAppliedRevision="main@sha1:0"),
    ],
    ids=["not ready", "not observed", "new", "another revision"],
)
def test_dependency_that_is_not_ready_at_the_same_revision_is_waited_for(
    base: Kustomization,
) -> None:
    with pytest.raises(WaitingError, match="dependency 'team/base' is not ready") as caught:
        gate(base).require_ready(APP, BUILT_FROM)

    assert caught.value.reason == "DependencyNotReady"


def test_revision_of_a_dependency_with_another_source_does_not_matter() -> None:
    base = kustomization("base", source="infra", lastAppliedRevision="v1@sha1:9")

    gate(base).require_ready(APP, BUILT_FROM)


def test_missing_dependency_is_named() -> None:
    with pytest.raises(WaitingError, match="dependency 'team/base' not found") as caught:
        gate().require_ready(APP, BUILT_FROM)

    assert caught.value.reason == "DependencyNotReady"


def test_every_dependency_must_be_ready() -> None:
    app = kustomization("app", {"name": "base"}, {"name": "late"})

    with pytest.raises(WaitingError, match="dependency 'team/late' not found"):
        gate(kustomization("base")).require_ready(app, BUILT_FROM)


def test_cycle_of_dependencies_says_what_it_waits_for() -> None:
    """Admission refuses one, but it may be older or have passed while the gate was away."""
    one = kustomization("one", {"name": "two"}, ready=False)
    two = kustomization("two", {"name": "one"}, ready=False)

    for each, other in ((one, "two"), (two, "one")):
        with pytest.raises(WaitingError, match=f"dependency 'team/{other}' is not ready"):
            gate(one, two).require_ready(each, BUILT_FROM)


LABELS = "dep.metadata.labels['version'] == self.metadata.labels['version']"


@pytest.mark.parametrize(("version", "passes"), [("1", True), ("2", False)])
def test_ready_expression_replaces_the_rule(version: str, *, passes: bool) -> None:
    app = kustomization("app", {"name": "base", "readyExpr": LABELS}, labels={"version": "1"})
    base = kustomization(*("base",), ready=False, observedGeneration=1, labels={"version": version})

    if passes:
        gate(base).require_ready(app, BUILT_FROM)
        return
    with pytest.raises(WaitingError, match="dependency 'team/base' is not ready"):
        gate(base).require_ready(app, BUILT_FROM)


def test_expression_that_does_not_compile_stalls() -> None:
    app = kustomization("app", {"name": "base"}, {"name": "b", "readyExpr": "dep.status.ready =="})

    with pytest.raises(StalledError) as caught:
        dependencies.compile_expressions(app)

    assert caught.value.reason == "InvalidCELExpression"


GRANTED = grant(
    "infra",
    of={"group": KUSTOMIZE, "kind": "Kustomization", "namespace": "team"},
    to={"group": KUSTOMIZE, "kind": "Kustomization"},
)
THEIRS = {"name": "base", "namespace": "infra"}


def test_waiting_for_another_namespace_needs_no_grant() -> None:
    base = kustomization("base", namespace="infra", source="other")

    gate(base).require_ready(kustomization("app", THEIRS), BUILT_FROM)


def test_waiting_for_another_namespace_is_refused_where_the_flag_forbids_it() -> None:
    base = kustomization("base", namespace="infra", source="other")

    with pytest.raises(AccessDeniedError, match="references have been blocked"):
        gate(base, cross=False).require_ready(kustomization("app", THEIRS), BUILT_FROM)


def test_without_a_grant_a_missing_dependency_reads_as_one_that_is_not_ready() -> None:
    app = kustomization("app", THEIRS)
    unready = kustomization("base", namespace="infra", source="other", ready=False)

    def told(asked: Gate) -> str:
        with pytest.raises(WaitingError) as caught:
            asked.require_ready(app, BUILT_FROM)
        return str(caught.value)

    assert told(gate()) == told(gate(unready)) == "dependency 'infra/base' is not ready"
    assert told(gate(grants=(GRANTED,))) == "dependency 'infra/base' not found"


@pytest.mark.parametrize(
    ("grants", "cross", "allowed"),
    [((), True, False), ((GRANTED,), True, True), ((GRANTED,), False, False)],
    ids=["no grant", "granted", "forbidden by flag"],
)
def test_reading_another_namespace_needs_a_grant_and_no_flag_against_it(
    grants: tuple[ReferenceGrant, ...], *, cross: bool, allowed: bool
) -> None:
    base = kustomization("base", namespace="infra", source="other")
    app = kustomization("app", THEIRS | {"readyExpr": "true"})
    asked = gate(base, grants=grants, cross=cross)

    if allowed:
        asked.require_ready(app, BUILT_FROM)
        return
    with pytest.raises(AccessDeniedError, match="infra/base") as caught:
        asked.require_ready(app, BUILT_FROM)
    assert caught.value.reason == "AccessDenied"
