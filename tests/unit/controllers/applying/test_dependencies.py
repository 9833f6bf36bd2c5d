"""Which state of its dependencies lets an object proceed, and what it says while it waits."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controllers.applying import dependencies
from controllers.applying.dependencies import KINDS, Dependent, Gate
from crds.helm import HelmRelease
from crds.kustomize import Kustomization
from crds.policy_referencegrant import ReferenceGrant
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.granting import KUSTOMIZE, allowing, grant
from toolkit.errors import AccessDeniedError, StalledError, WaitingError
from toolkit.kube.informer import Informer
from toolkit.kube.later import Later
from toolkit.objects import Json, ObjectKey

READY = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": ""}


def kustomization(name: str, *depends: Json, ready: bool = True, **fields: Any) -> Kustomization:
    """Return a Kustomization of generation 2; the fields are of its status."""
    labels = fields.pop("labels", {})
    namespace = fields.pop("namespace", "team")
    condition = READY | {"status": "True" if ready else "False"}
    status = {
        "observedGeneration": 2,
        "conditions": [condition | {"lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }
    body = {
        "metadata": {"name": name, "namespace": namespace, "generation": 2, "labels": labels},
        "spec": {
            "interval": "1m",
            "prune": True,
            "dependsOn": list(depends),
        },
        "status": status | fields,
    }
    return msgspec.convert(body, Kustomization)


def gate(
    *others: Kustomization | HelmRelease,
    grants: tuple[ReferenceGrant, ...] = (),
    cross: bool = True,
) -> Gate:
    policy = allowing(*grants, cross_namespace=cross)
    known: dict[str, dict[ObjectKey, Kustomization | HelmRelease]] = {kind: {} for kind in KINDS}
    for each in others:
        known[each.kind][ObjectKey(each.metadata.namespace, each.metadata.name)] = each
    return Gate(lookups={gvk: known[kind].get for kind, gvk in KINDS.items()}, policy=policy)


def require(asked: Gate, obj: Kustomization | HelmRelease, *, current: bool = True) -> None:
    asked.require_ready(obj, current=lambda _: current)


APP = kustomization("app", {"name": "base"})


def test_ready_dependency_lets_the_pass_through() -> None:
    require(gate(kustomization("base")), APP)


@pytest.mark.parametrize(
    "base",
    [
        kustomization("base", ready=False),
        kustomization("base", observedGeneration=1),
        kustomization("base", conditions=[]),
    ],
    ids=["not ready", "not observed", "new"],
)
def test_dependency_that_is_not_ready_is_waited_for(base: Kustomization) -> None:
    with pytest.raises(WaitingError, match="'team/base' is not ready") as caught:
        require(gate(base), APP)

    assert caught.value.reason == "DependencyNotReady"
    assert caught.value.told.event == "Dependencies do not meet ready condition"


def test_dependency_that_is_ready_at_another_revision_is_waited_for() -> None:
    with pytest.raises(WaitingError, match="'team/base' revision is not up to date"):
        require(gate(kustomization("base")), APP, current=False)


def release(name: str, *depends: Json, ready: bool = True) -> HelmRelease:
    """Return a HelmRelease of generation 2."""
    condition = READY | {"status": "True" if ready else "False"}
    body = {
        "metadata": {"name": name, "namespace": "team", "generation": 2},
        "spec": {
            "interval": "1m",
            "chartRef": {"kind": "OCIRepository", "name": "app"},
            "dependsOn": list(depends),
        },
        "status": {
            "observedGeneration": 2,
            "conditions": [condition | {"lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    }
    return msgspec.convert(body, HelmRelease)


def test_objects_of_both_kinds_wait_for_each_other() -> None:
    both = gate(kustomization("base"), release("base", ready=False))
    app = kustomization("app", {"name": "base", "kind": "HelmRelease"})

    with pytest.raises(WaitingError, match="dependency 'team/base' is not ready"):
        require(both, app)
    require(both, release("app", {"name": "base", "kind": "Kustomization"}))


def test_one_without_a_kind_is_of_the_own_kind() -> None:
    both = gate(kustomization("base"), release("base", ready=False))

    require(both, APP)
    with pytest.raises(WaitingError, match="dependency 'team/base' is not ready"):
        require(both, release("app", {"name": "base"}))


def test_missing_dependency_is_named() -> None:
    with pytest.raises(WaitingError, match="dependency 'team/base' not found") as caught:
        require(gate(), APP)

    assert caught.value.reason == "DependencyNotReady"


def test_every_dependency_must_be_ready() -> None:
    app = kustomization("app", {"name": "base"}, {"name": "late"})

    with pytest.raises(WaitingError, match="dependency 'team/late' not found"):
        require(gate(kustomization("base")), app)


def test_cycle_of_dependencies_says_what_it_waits_for() -> None:
    """Admission refuses one, but it may be older or have passed while the gate was away."""
    one = kustomization("one", {"name": "two"}, ready=False)
    two = kustomization("two", {"name": "one"}, ready=False)

    for each, other in ((one, "two"), (two, "one")):
        with pytest.raises(WaitingError, match=f"dependency 'team/{other}' is not ready"):
            require(gate(one, two), each)


LABELS = "dep.metadata.labels['version'] == self.metadata.labels['version']"


@pytest.mark.parametrize(("version", "passes"), [("1", True), ("2", False)])
def test_ready_expression_replaces_the_rule(version: str, *, passes: bool) -> None:
    app = kustomization("app", {"name": "base", "readyExpr": LABELS}, labels={"version": "1"})
    base = kustomization(*("base",), ready=False, observedGeneration=1, labels={"version": version})

    if passes:
        require(gate(base), app)
        return
    with pytest.raises(WaitingError, match="dependency 'team/base' is not ready"):
        require(gate(base), app)


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
    base = kustomization("base", namespace="infra")

    require(gate(base), kustomization("app", THEIRS))


def test_waiting_for_another_namespace_is_refused_where_the_flag_forbids_it() -> None:
    base = kustomization("base", namespace="infra")

    with pytest.raises(AccessDeniedError, match="references have been blocked"):
        require(gate(base, cross=False), kustomization("app", THEIRS))


def test_without_a_grant_every_dependency_that_is_awaited_reads_the_same() -> None:
    app = kustomization("app", THEIRS)
    unready = kustomization("base", namespace="infra", ready=False)
    ready = kustomization("base", namespace="infra")

    def told(asked: Gate) -> str:
        with pytest.raises(WaitingError) as caught:
            require(asked, app, current=False)
        return str(caught.value)

    said = {told(gate()), told(gate(unready)), told(gate(ready))}
    assert said == {"dependency 'infra/base' is not ready"}
    assert "revision" in told(gate(ready, grants=(GRANTED,)))
    assert told(gate(grants=(GRANTED,))) == "dependency 'infra/base' not found"


@pytest.mark.parametrize(
    ("grants", "cross", "allowed"),
    [((), True, False), ((GRANTED,), True, True), ((GRANTED,), False, False)],
    ids=["no grant", "granted", "forbidden by flag"],
)
def test_reading_another_namespace_needs_a_grant_and_no_flag_against_it(
    grants: tuple[ReferenceGrant, ...], *, cross: bool, allowed: bool
) -> None:
    base = kustomization("base", namespace="infra")
    app = kustomization("app", THEIRS | {"readyExpr": "true"})
    asked = gate(base, grants=grants, cross=cross)

    if allowed:
        require(asked, app)
        return
    with pytest.raises(AccessDeniedError, match="infra/base") as caught:
        require(asked, app)
    assert caught.value.reason == "AccessDenied"


CROSSING = kustomization("app", {"name": "db", "kind": "HelmRelease"})


@pytest.mark.parametrize(
    ("served", "told"),
    [
        ({("helm.toolkit.fluxcd.io", "v2", "helmreleases"): "HelmRelease"}, "not found"),
        ({}, "is unknown: no HelmReleases have been listed yet"),
    ],
)
async def test_a_kind_that_is_not_served_is_not_waited_for(
    served: dict[tuple[str, str, str], str], told: str
) -> None:
    server = FakeApiServer()
    server.kinds.update(served)
    read = msgspec.json.Decoder(HelmRelease).decode
    async with server.running() as client, asyncio.TaskGroup() as group:
        later = Later(Informer[Dependent](client, KINDS["HelmRelease"], decode=read))
        following = group.create_task(later.run())
        asked = replace(gate(), later=(later,))
        later.need()

        await asked.known(CROSSING)

        with pytest.raises(WaitingError, match=f"dependency 'team/db' {told}"):
            require(asked, CROSSING)
        following.cancel()
