"""Golden cases: what kustomize-controller of Flux 2.9 tells, recorded beside what ours does.

Each row names the place in ``internal/controller/kustomization_controller.go`` that it was read
from. Where ours differs on purpose, ``docs/differences.md`` says why.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from controllers.kustomize import settling
from controllers.kustomize.memory import Applied
from controllers.kustomize.sources import Mount, Sources
from crds.kustomize import Kustomization
from crds.meta import Artifact
from tests.fakes import kustomizations
from toolkit.apply.health import Health, Status
from toolkit.apply.wait import Verdict
from toolkit.errors import PenstockError
from toolkit.kube import conditions, verdict
from toolkit.kube.reconciliation import Event, Reconciliation
from toolkit.objects import GroupVersionKind, Json, ObjectRef

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
WEB = ObjectRef(GroupVersionKind("apps", "v1", "Deployment"), "apps", "web")
REVISION = "main@sha1:abc"
SOURCES = Sources(
    mounts=(
        Mount(
            path="",
            ref=ObjectRef(GIT, "apps", "app"),
            artifact=Artifact(
                digest="sha256:0",
                last_update_time="2026-01-01T00:00:00Z",
                path="gitrepository/apps/app/abc.tar.gz",
                revision=REVISION,
                url="http://artifacts.test/gitrepository/apps/app/abc.tar.gz",
            ),
        ),
    )
)


@dataclass
class Recorder:
    """What was told of a pass."""

    events: list[tuple[str, str, str]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    """The messages that become events of the cluster, too."""

    def emit(self, event: Event) -> None:
        self.events.append((event.severity, event.reason, event.message))
        if event.cluster:
            self.shown.append(event.shown)


@dataclass
class Watched:
    """A cluster whose objects have the health that the test says."""

    health: Verdict

    @property
    def live(self) -> "Watched":
        return self

    @property
    def waits(self) -> "Watched":
        return self

    def unwatched(self, _key: Any) -> frozenset[GroupVersionKind]:
        return frozenset()

    def observe(self, *_: Any) -> None: ...

    def cancel(self, _key: Any) -> None: ...

    def current(self, _ref: Any) -> bool:
        return True

    def verdict(self, _key: Any) -> Verdict:
        return self.health


def a_pass(
    recorder: Recorder, *, healthy: str = "", revision: str = "", **spec: Any
) -> Reconciliation[Kustomization]:
    """Draft a pass; ``healthy`` is the status of the condition, ``revision`` was applied last."""
    told = [conditions.make("Healthy", healthy, "X", "before")] if healthy else []
    stamp = {"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}
    body: Json = {
        "metadata": {"name": "app", "namespace": "apps", "generation": 1},
        "spec": {"interval": "10m", "timeout": "3m", "prune": True, **spec},
        "status": {
            "conditions": [{**row, **stamp} for row in told],
            "lastAppliedRevision": revision,
        },
    }
    return kustomizations.a_pass(body, recorder)


def wrote(*, changed: bool, awaited: Sequence[ObjectRef] = ()) -> Applied:
    """Return an apply that has just ended."""
    return Applied(
        fingerprint="1",
        digest="sha256:1",
        started=0.0,
        inventory=(WEB,),
        awaited=tuple(awaited),
        changed=changed,
    )


def cluster(state: Any) -> Any:
    """Return a cluster whose Deployment has this health."""
    bad = {"failed": Health(Status.FAILED, "Replicas"), "timeout": Health(Status.IN_PROGRESS, "0")}
    pending = ((WEB, bad[state]),) if state in bad else ()
    return Watched(Verdict(state=state, pending=pending, seconds=1.2))


FINISHED = r"Reconciliation finished in \S+, next run in 10m0s"
PASSED = r"Health check passed in 1\.2s"


@dataclass(frozen=True, kw_only=True)
class Case:
    """How a pass that applied something ends, and the events that Flux emits then."""

    healthy: str = ""
    revision: str = ""
    changed: bool = True
    waits: bool = True
    events: tuple[tuple[str, str], ...]


ENDINGS = {
    # Reconcile, deferred: after each pass that ends Ready
    "nothing is waited for": Case(waits=False, events=(("ReconciliationSucceeded", FINISHED),)),
    # checkHealth: the condition was not True before; Ready's reason is Progressing meanwhile
    "healthy for the first time": Case(
        events=(("Progressing", PASSED), ("ReconciliationSucceeded", FINISHED))
    ),
    "healthy after a failure": Case(
        healthy="False",
        revision=REVISION,
        changed=False,
        events=(("Progressing", PASSED), ("ReconciliationSucceeded", FINISHED)),
    ),
    # checkHealth: isNewRevision && drifted
    "healthy again after a new revision": Case(
        healthy="True",
        revision="main@sha1:old",
        events=(("Progressing", PASSED), ("ReconciliationSucceeded", FINISHED)),
    ),
    "a new revision that changes nothing": Case(
        healthy="True",
        revision="main@sha1:old",
        changed=False,
        events=(("ReconciliationSucceeded", FINISHED),),
    ),
    "drift that was corrected": Case(
        healthy="True", revision=REVISION, events=(("ReconciliationSucceeded", FINISHED),)
    ),
}


@pytest.mark.parametrize("changed", [True, False])
async def test_the_cluster_is_not_told_of_a_revision_that_changed_nothing(
    changed: bool,  # noqa: FBT001 - a table
) -> None:
    recorder = Recorder()
    rec = a_pass(recorder, healthy="True", revision="main@sha1:old", wait=True)
    ready = conditions.make("Ready", "True", "ReconciliationSucceeded", "Applied revision: old")
    rec.before = ready

    await settling.settle(
        rec, SOURCES, cluster("healthy"), wrote(changed=changed, awaited=[WEB]), fail_fast=True
    )

    assert "ReconciliationSucceeded" in {reason for _, reason, _ in recorder.events}
    assert bool(recorder.shown) is changed


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        pytest.param(True, rf"{PASSED}\n{FINISHED}", id="with the end of the pass"),
        pytest.param(False, PASSED, id="by itself, where the end is no news"),
    ],
)
async def test_the_cluster_gets_one_event_of_health_and_end(
    changed: bool,  # noqa: FBT001 - a table
    shown: str,
) -> None:
    recorder = Recorder()
    rec = a_pass(recorder, healthy="False", revision=REVISION, wait=True)
    rec.before = conditions.make("Ready", "True", "ReconciliationSucceeded", "Applied revision")

    await settling.settle(
        rec, SOURCES, cluster("healthy"), wrote(changed=changed, awaited=[WEB]), fail_fast=True
    )

    (told,) = recorder.shown
    assert re.fullmatch(shown, told)
    assert [reason for _, reason, _ in recorder.events] == [
        "Progressing",
        "ReconciliationSucceeded",
    ]


async def test_a_later_pass_that_applied_nothing_tells_nobody() -> None:
    recorder = Recorder()
    rec = a_pass(recorder, healthy="True", revision=REVISION, wait=True)
    rec.before = conditions.make("Ready", "True", "ReconciliationSucceeded", "Applied revision")
    applied = wrote(changed=True, awaited=[WEB])
    applied.settled, applied.was_healthy = True, True

    await settling.settle(rec, SOURCES, cluster("healthy"), applied, fail_fast=True)

    assert recorder.events == []


@pytest.mark.parametrize("case", ENDINGS.values(), ids=ENDINGS)
async def test_a_pass_ends_with_the_events_of_flux(case: Case) -> None:
    recorder = Recorder()
    rec = a_pass(recorder, healthy=case.healthy, revision=case.revision, wait=case.waits)
    applied = wrote(changed=case.changed, awaited=[WEB] if case.waits else [])

    outcome = await settling.settle(rec, SOURCES, cluster("healthy"), applied, fail_fast=True)

    told = [(reason, message) for _, reason, message in recorder.events]
    assert len(told) == len(case.events)
    for (reason, message), (wanted, pattern) in zip(told, case.events, strict=True):
        assert reason == wanted
        assert re.fullmatch(pattern, message)
    assert outcome.message == f"Applied revision: {REVISION}"


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("failed", "failed early due to stalled resources: [Deployment/apps/web status: 'Failed'"),
        ("timeout", "timeout waiting for: [Deployment/apps/web status: 'InProgress'"),
    ],
)
async def test_failed_health_is_told_as_flux_does(state: str, text: str) -> None:
    # checkHealth: the prefix is that of the error, not of the condition Healthy
    rec = a_pass(Recorder(), wait=True)

    with pytest.raises(PenstockError) as caught:
        await settling.settle(
            rec, SOURCES, cluster(state), wrote(changed=True, awaited=[WEB]), fail_fast=True
        )

    healthy = conditions.find(rec.conditions, "Healthy")
    assert caught.value.reason == "HealthCheckFailed"
    assert str(caught.value).startswith(f"health check failed after 1.2s: {text}")
    assert healthy is not None
    assert healthy["status"] == "False"
    assert healthy["message"].startswith(text)


async def test_health_is_unknown_while_it_is_looked_at() -> None:
    rec = a_pass(Recorder(), healthy="True", revision=REVISION, wait=True)
    applied = wrote(changed=True, awaited=[WEB])

    await settling.settle(rec, SOURCES, cluster("waiting"), applied, fail_fast=True)

    healthy = conditions.find(rec.conditions, "Healthy")
    assert healthy is not None
    assert (healthy["status"], healthy["reason"]) == ("Unknown", "Progressing")
    assert healthy["message"] == (
        f"Running health checks for revision {REVISION} with a timeout of 3m0s"
    )
    assert applied.was_healthy


async def test_health_is_unknown_from_the_first_write_on() -> None:
    rec = a_pass(Recorder(), healthy="True", revision=REVISION, wait=True)

    await settling.progress(rec, SOURCES)

    healthy = conditions.find(rec.conditions, "Healthy")
    assert healthy is not None
    assert (healthy["status"], healthy["reason"]) == ("Unknown", "Progressing")


async def test_health_that_nothing_waits_for_is_not_announced() -> None:
    rec = a_pass(Recorder())

    await settling.progress(rec, SOURCES)

    assert conditions.find(rec.conditions, "Healthy") is None


@pytest.mark.parametrize("healthy", ["", "True", "False", "Unknown"])
async def test_health_stays_as_it_was_if_the_apply_fails(healthy: str) -> None:
    # checkHealth, which changes the condition, comes after apply and prune
    rec = a_pass(Recorder(), healthy=healthy, revision=REVISION, wait=True)
    before = conditions.find(rec.conditions, "Healthy")

    async def fail() -> None:
        with settling.announced(rec):
            await settling.progress(rec, SOURCES)
            raise PenstockError("refused")

    with pytest.raises(PenstockError):
        await fail()

    assert conditions.find(rec.conditions, "Healthy") == before


async def test_conditions_of_a_failure_have_the_order_of_flux() -> None:
    # fluxcd/pkg runtime/conditions/setter.go, conditionWeights
    rec = a_pass(Recorder(), wait=True)
    applied = wrote(changed=True, awaited=[WEB])
    with pytest.raises(PenstockError) as caught:
        await settling.settle(rec, SOURCES, cluster("failed"), applied, fail_fast=True)

    failed = verdict.failed(
        caught.value, requeue_dependency=30, retry_interval=60, reconcile_id="pass"
    )
    verdict.settle(rec, failed)

    assert [row["type"] for row in rec.conditions] == ["Reconciling", "Ready", "Healthy"]
