"""Which objects of a release are waited for, and when a wait goes on in another process."""

from typing import Any

import pytest

from controllers.helm.deciding.decisions import Action
from controllers.helm.running import awaiting
from tests.fakes.releases import history, release, snapshot

Json = dict[str, Any]

KINDS = {
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "Certificate": "cert-manager.io/v1",
    "ConfigMap": "v1",
}
OBJECTS: list[Json] = [
    *({"apiVersion": v, "kind": k, "metadata": {"name": "x"}} for k, v in KINDS.items()),
    {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": {"name": "app", "namespace": "team"},
    },
]
ALL = ["Deployment", "Job", "Certificate", "ConfigMap"]

ROWS: list[tuple[Action, Json, list[str]]] = [
    (Action.INSTALL, {}, ALL),
    (Action.INSTALL, {"install": {"disableWait": True}}, []),
    (Action.UPGRADE, {"install": {"disableWait": True}}, ALL),
    (Action.UPGRADE, {"upgrade": {"disableWaitForJobs": True}}, [a for a in ALL if a != "Job"]),
    (Action.ROLLBACK, {"rollback": {"disableWait": True}}, []),
    (Action.INSTALL, {"waitStrategy": {"name": "legacy"}}, ["Deployment", "Job"]),
    (Action.INSTALL, {"waitStrategy": {"name": "poller"}}, ALL),
]


@pytest.mark.parametrize(("action", "spec", "expected"), ROWS)
def test_spec_says_what_is_waited_for_and_never_the_object_itself(
    action: Action, spec: Json, expected: list[str]
) -> None:
    found = awaiting.awaited(release(spec=spec), action, OBJECTS)

    assert [ref.gvk.kind for ref in found] == expected


UNDER_WAY: list[tuple[list[str], Json, Action | None]] = [
    # conditions that are Unknown, newest release, what goes on
    ([], {"action": "install"}, None),
    (["TestSuccess"], {"action": "install"}, None),
    (["Released"], {"action": "install"}, Action.INSTALL),
    (["Remediated"], {"action": "rollback"}, Action.ROLLBACK),
    (["Remediated"], {"action": "install"}, None),
]


@pytest.mark.parametrize(("conditions", "newest", "expected"), UNDER_WAY)
def test_conditions_tell_what_another_process_waited_for(
    conditions: list[str], newest: Json, expected: Action | None
) -> None:
    deployed = {"last_deployed": "2026-01-01T00:00:00Z"}
    status = {
        **history(snapshot(**newest, **deployed)),
        "lastAttemptedReleaseAction": "install",
        "lastAttemptedRevision": "1.0.0",
        "lastAttemptedConfigDigest": "sha256:0",
    }

    found = awaiting.resumed(release(status=status), conditions)

    assert (found and found.action) == expected
    if found is not None:
        assert found.attempted == ("1.0.0", "sha256:0", "", "")
        assert found.seconds == 0  # it was deployed long ago


def test_without_a_release_nothing_goes_on() -> None:
    assert awaiting.resumed(release(), ["Released"]) is None
