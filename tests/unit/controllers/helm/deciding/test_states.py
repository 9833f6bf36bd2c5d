"""What a release is, row by row as Flux tells it (``internal/reconcile/state_test.go``)."""

from typing import Any

import pytest

from controllers.helm.deciding import states
from controllers.helm.deciding.states import Desired, Observed, State, StateError
from crds.helm import HelmRelease
from tests.fakes.releases import DESIRED, history, made, release, snapshot
from toolkit.release import record
from toolkit.release.record import Record

Json = dict[str, Any]

PASSED = {"smoke": {"phase": "Succeeded"}}
BROKEN = {"smoke": {"phase": "Failed"}, "other": {"phase": "Succeeded"}}
TESTS: Json = {"test": {"enable": True}}
DETECTS: Json = {"driftDetection": {"mode": "warn"}}


def observe(obj: HelmRelease, found: Record | None, desired: Desired, **more: bool) -> Observed:
    return states.observe(obj, states.seen(obj, found), desired, **more)


def kept(**changes: Any) -> Json:
    return history(snapshot(**changes))


def tried(hooks: Json | None, action: str = "install") -> Json:
    status = kept()
    status["history"][0]["testHooks"] = hooks
    return {**status, "lastAttemptedReleaseAction": action}


ROWS: list[tuple[Record | None, Json, Json, State]] = [
    # record in storage, status, spec, state
    (None, {}, {}, State.ABSENT),
    (None, kept(), {}, State.ABSENT),
    (made(status="uninstalled"), {}, {}, State.ABSENT),
    (made(status="uninstalled"), kept(), {}, State.UNMANAGED),
    (made(status="uninstalled"), history(snapshot(1, "uninstalled")), {}, State.ABSENT),
    (made(status="pending-install"), {}, {}, State.LOCKED),
    (made(status="pending-upgrade"), kept(), {}, State.LOCKED),
    (made(status="pending-rollback"), kept(), {}, State.LOCKED),
    (made(), {}, {}, State.UNMANAGED),
    (made(status="failed"), {}, {}, State.UNMANAGED),
    (made(2), kept(), {}, State.UNMANAGED),
    (made(manifest="changed"), kept(), {}, State.UNMANAGED),
    (made(status="failed"), kept(), {}, State.UNMANAGED),
    (made(status="failed"), history(snapshot(1, "failed")), {}, State.FAILED),
    (made(), kept(), {}, State.IN_SYNC),
    (made(manifest="changed"), kept(api_version="", digest="sha256:0"), {}, State.IN_SYNC),
    (made(), kept(config_digest="sha256:0"), {}, State.OUT_OF_SYNC),
    (made(), kept(), TESTS, State.UNTESTED),
    (made(), tried({}), TESTS, State.IN_SYNC),
    (made(), tried(PASSED), TESTS, State.IN_SYNC),
    (made(), tried({"smoke": {"phase": "Running"}}), TESTS, State.UNTESTED),
    (made(), tried(BROKEN), TESTS, State.FAILED),
    (made(), tried(BROKEN), {"test": {"enable": True, "ignoreFailures": True}}, State.IN_SYNC),
    (
        made(),
        tried(BROKEN),
        {**TESTS, "install": {"remediation": {"ignoreTestFailures": True}}},
        State.IN_SYNC,
    ),
    (
        made(),
        tried(BROKEN, "upgrade"),
        {**TESTS, "install": {"remediation": {"ignoreTestFailures": True}}},
        State.FAILED,
    ),
    (made(), tried(BROKEN), {}, State.IN_SYNC),
]


@pytest.mark.parametrize(("found", "status", "spec", "expected"), ROWS)
def test_a_release_is_in_a_state(
    found: Record | None, status: Json, spec: Json, expected: State
) -> None:
    assert observe(release(spec=spec, status=status), found, DESIRED).state is expected


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": "other", "version": "1.0.0"}, "release chart changed"),
        ({"name": "shop", "version": "1.1.0"}, "release chart changed"),
    ],
)
def test_another_chart_is_out_of_sync(change: Json, why: str) -> None:
    found = made(chart={"metadata": change})
    status = history(record.snapshot(found))

    observed = observe(release(status=status), found, DESIRED)

    assert (observed.state, observed.reason) == (State.OUT_OF_SYNC, why)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"postRenderers": [{"kustomize": {}}]}, "postrenderers digest has changed"),
        ({"commonMetadata": {"labels": {"a": "b"}}}, "common metadata digest has changed"),
    ],
)
def test_what_changes_the_rendered_objects_counts_in_a_new_generation(spec: Json, why: str) -> None:
    seen = release(spec=spec, status=kept())
    unseen = release(spec=spec, status={**kept(), "observedGeneration": 1})
    applied = {
        "observedPostRenderersDigest": states.post_renderers_digest(seen),
        "observedCommonMetadataDigest": states.common_metadata_digest(seen),
    }
    settled = release(spec=spec, status={**kept(), **applied, "observedGeneration": 1})

    assert observe(seen, made(), DESIRED).state is State.IN_SYNC
    assert observe(unseen, made(), DESIRED).reason == why
    assert observe(settled, made(), DESIRED).state is State.IN_SYNC


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, State.IN_SYNC),
        ({"driftDetection": {}}, State.IN_SYNC),
        ({"driftDetection": {"mode": "disabled"}}, State.IN_SYNC),
        (DETECTS, State.DRIFTED),
        ({"driftDetection": {"mode": "enabled"}}, State.DRIFTED),
        ({**DETECTS, **TESTS}, State.UNTESTED),
    ],
)
def test_drift_counts_where_it_is_asked_for_and_all_else_is_right(
    spec: Json, expected: State
) -> None:
    obj = release(spec=spec, status=kept())

    assert observe(obj, made(), DESIRED, drifted=True).state is expected


@pytest.mark.parametrize("status", ["superseded", "unknown", "uninstalling", ""])
def test_another_status_is_an_error(status: str) -> None:
    obj = release(status=history(snapshot(1, status)))

    with pytest.raises(StateError) as caught:
        observe(obj, made(status=status), DESIRED)

    assert caught.value.reason == "StateError"
    assert str(caught.value) == (f"unable to determine state for release with status '{status}'")
