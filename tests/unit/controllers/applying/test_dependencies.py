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
from tests.fakes.evaluating import NoEvaluator
from tests.fakes.granting import KUSTOMIZE, allowing, grant
from toolkit.errors import AccessDeniedError, StalledError, WaitingError
from toolkit.expressions.evaluator import Evaluates, Evaluator
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
    evaluates: Evaluates | None = None,
) -> Gate:
    policy = allowing(*grants, cross_namespace=cross)
    known: dict[str, dict[ObjectKey, Kustomization | HelmRelease]] = {kind: {} for kind in KINDS}
    for each in others:
        known[each.kind][ObjectKey(each.metadata.namespace, each.metadata.name)] = each
    return Gate(
        lookups={gvk: known[kind].get for kind, gvk in KINDS.items()},
        policy=policy,
        evaluates=evaluates or NoEvaluator(),
    )


async def require(asked: Gate, obj: Kustomization | HelmRelease, *, current: bool = True) -> None:
    await asked.require_ready(obj, current=lambda _: current)


APP = kustomization("app", {"name": "base"})


async def test_ready_dependency_lets_the_pass_through() -> None:
    await require(gate(kustomization("base")), APP)


@pytest.mark.parametrize(
    "base",
    [
        kustomization("base", ready=False),
        kustomization("base", observedGeneration=1),
        kustomization("base", conditions=[]),
    ],
    ids=["not ready", "not observed", "new"],
)
async def test_dependency_that_is_not_ready_is_waited_for(base: Kustomization) -> None:
    with pytest.raises(WaitingError, match="'team/base' is not ready") as caught:
        await require(gate(base), APP)

    assert caught.value.reason == "DependencyNotReady"
    assert caught.value.told.event == "Dependencies do not meet ready condition"


async def test_dependency_that_is_ready_at_another_revision_is_waited_for() -> None:
    with pytest.raises(WaitingError, match="'team/base' revision is not up to date"):
        await require(gate(kustomization("base")), APP, current=False)


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


async def test_objects_of_both_kinds_wait_for_each_other() -> None:
    both = gate(kustomization("base"), release("base", ready=False))
    app = kustomization("app", {"name": "base", "kind": "HelmRelease"})

    with pytest.raises(WaitingError, match="dependency 'team/base' is not ready"):
        await require(both, app)
    await require(both, release("app", {"name": "base", "kind": "Kustomization"}))


async def test_one_without_a_kind_is_of_the_own_kind() -> None:
    both = gate(kustomization("base"), release("base", ready=False))

    await require(both, APP)
    with pytest.raises(WaitingError, match="dependency 'team/base' is not ready"):
        await require(both, release("app", {"name": "base"}))


async def test_missing_dependency_is_named() -> None:
    with pytest.raises(WaitingError, match="dependency 'team/base' not found") as caught:
        await require(gate(), APP)

    assert caught.value.reason == "DependencyNotReady"


async def test_every_dependency_must_be_ready() -> None:
    app = kustomization("app", {"name": "base"}, {"name": "late"})

    with pytest.raises(WaitingError, match="dependency 'team/late' not found"):
        await require(gate(kustomization("base")), app)


async def test_cycle_of_dependencies_says_what_it_waits_for() -> None:
    """Admission refuses one, but it may be older or have passed while the gate was away."""
    one = kustomization("one", {"name": "two"}, ready=False)
    two = kustomization("two", {"name": "one"}, ready=False)

    for each, other in ((one, "two"), (two, "one")):
        with pytest.raises(WaitingError, match=f"dependency 'team/{other}' is not ready"):
            await require(gate(one, two), each)


LABELS = "dep.metadata.labels['version'] == self.metadata.labels['version']"


@pytest.mark.parametrize(("version", "passes"), [("1", True), ("2", False)])
async def test_ready_expression_replaces_the_rule(
    evaluates: Evaluator, version: str, *, passes: bool
) -> None:
    app = kustomization("app", {"name": "base", "readyExpr": LABELS}, labels={"version": "1"})
    base = kustomization(*("base",), ready=False, observedGeneration=1, labels={"version": version})

    if passes:
        await require(gate(base, evaluates=evaluates), app)
        return
    with pytest.raises(WaitingError, match="dependency 'team/base' is not ready"):
        await require(gate(base, evaluates=evaluates), app)


async def test_expression_that_does_not_compile_stalls(evaluates: Evaluator) -> None:
    app = kustomization("app", {"name": "base"}, {"name": "b", "readyExpr": "dep.status.ready =="})

    with pytest.raises(StalledError, match=r"spec.dependsOn\[1\].readyExpr: ") as caught:
        await dependencies.require_expressions(evaluates, app, ())

    assert caught.value.reason == "InvalidCELExpression"


async def test_costly_expressions_of_all_dependencies_stall_the_object(
    evaluates: Evaluator,
) -> None:
    """Sixteen of them, of 4,096 characters over a list of 310 entries, stopped a controller."""
    head, check = "dep.spec.components.all(x, dep.spec.components.all(y, ", "y!=''"
    text = head + "&&".join([check] * ((4096 - len(head) - 2) // 7)) + "))"
    app = kustomization("app", *[{"name": "base", "readyExpr": text}] * 16)
    base = kustomization("base")
    components = [f"c{number}" for number in range(310)]
    base = msgspec.structs.replace(
        base, spec=msgspec.structs.replace(base.spec, components=components)
    )
    await dependencies.require_expressions(evaluates, app, ())

    with pytest.raises(StalledError, match="too expensive on these values") as caught:
        await require(gate(base, evaluates=evaluates), app)

    assert str(caught.value).startswith("spec.dependsOn[].readyExpr: ")
    assert caught.value.reason == "InvalidCELExpression"


async def test_a_costly_expression_of_a_release_stalls_it(evaluates: Evaluator) -> None:
    head = "dep.spec.dependsOn.all(x, dep.spec.dependsOn.all(y, "
    text = head + "&&".join(["y.name!=''"] * 90) + "))"
    app = release("app", {"name": "base", "readyExpr": text})
    base = release("base", *({"name": f"c{number}"} for number in range(300)))

    with pytest.raises(StalledError, match="too expensive on these values"):
        await require(gate(base, evaluates=evaluates), app)


GRANTED = grant(
    "infra",
    of={"group": KUSTOMIZE, "kind": "Kustomization", "namespace": "team"},
    to={"group": KUSTOMIZE, "kind": "Kustomization"},
)
THEIRS = {"name": "base", "namespace": "infra"}


async def test_waiting_for_another_namespace_needs_no_grant() -> None:
    base = kustomization("base", namespace="infra")

    await require(gate(base), kustomization("app", THEIRS))


async def test_waiting_for_another_namespace_is_refused_where_the_flag_forbids_it() -> None:
    base = kustomization("base", namespace="infra")

    with pytest.raises(AccessDeniedError, match="references have been blocked"):
        await require(gate(base, cross=False), kustomization("app", THEIRS))


async def test_without_a_grant_every_dependency_that_is_awaited_reads_the_same() -> None:
    app = kustomization("app", THEIRS)
    unready = kustomization("base", namespace="infra", ready=False)
    ready = kustomization("base", namespace="infra")

    async def told(asked: Gate) -> str:
        with pytest.raises(WaitingError) as caught:
            await require(asked, app, current=False)
        return str(caught.value)

    said = {await told(gate()), await told(gate(unready)), await told(gate(ready))}
    assert said == {"dependency 'infra/base' is not ready"}
    assert "revision" in await told(gate(ready, grants=(GRANTED,)))
    assert await told(gate(grants=(GRANTED,))) == (
        "dependency 'infra/base' not found: create it, or correct spec.dependsOn"
    )


@pytest.mark.parametrize(
    ("grants", "cross", "allowed"),
    [((), True, False), ((GRANTED,), True, True), ((GRANTED,), False, False)],
    ids=["no grant", "granted", "forbidden by flag"],
)
async def test_reading_another_namespace_needs_a_grant_and_no_flag_against_it(
    evaluates: Evaluator, grants: tuple[ReferenceGrant, ...], *, cross: bool, allowed: bool
) -> None:
    base = kustomization("base", namespace="infra")
    app = kustomization("app", THEIRS | {"readyExpr": "true"})
    asked = gate(base, grants=grants, cross=cross, evaluates=evaluates)

    if allowed:
        await require(asked, app)
        return
    with pytest.raises(AccessDeniedError, match="infra/base") as caught:
        await require(asked, app)
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
            await require(asked, CROSSING)
        following.cancel()
