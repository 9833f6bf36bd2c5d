"""A release that goes elsewhere is uninstalled where it was."""

from typing import Any

import pytest

from controllers.helm.deciding import policies, targets
from tests.fakes.releases import history, release, snapshot

Json = dict[str, Any]

HERE: Json = {"storageNamespace": "team", **history(snapshot())}
IN_PLACE: Json = {"upgrade": {"chartNameChangeStrategy": "InPlaceUpdate"}}


@pytest.mark.parametrize(
    ("spec", "status", "chart", "expected"),
    [
        ({}, HERE, "shop", ""),
        ({"storageNamespace": "far"}, HERE, "shop", "storage namespace"),
        ({"targetNamespace": "far"}, HERE, "shop", "release namespace"),
        ({"releaseName": "other"}, HERE, "shop", "release name"),
        ({}, HERE, "store", "chart name"),
        (IN_PLACE, HERE, "store", ""),
        ({**IN_PLACE, "releaseName": "other"}, HERE, "store", "release name"),
        ({"targetNamespace": "far"}, {}, "store", ""),
        ({"targetNamespace": "far"}, {"storageNamespace": "team"}, "store", ""),
        ({"targetNamespace": "far"}, history(snapshot()), "store", ""),
    ],
)
def test_a_changed_target_is_told(spec: Json, status: Json, chart: str, expected: str) -> None:
    assert targets.changed(release(spec=spec, status=status), chart) == expected


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({}, ("app", "team", "team")),
        ({"targetNamespace": "prod"}, ("prod-app", "prod", "team")),
        ({"releaseName": "x", "storageNamespace": "y"}, ("x", "team", "y")),
    ],
)
def test_a_release_has_a_name_and_namespaces(spec: Json, names: tuple[str, ...]) -> None:
    obj = release(spec=spec)

    assert names == (
        targets.release_name(obj),
        targets.release_namespace(obj),
        targets.storage_namespace(obj),
    )


@pytest.mark.parametrize("action", ["install", "upgrade", "test", "rollback", "uninstall"])
def test_an_action_has_its_own_deadline_or_that_of_the_release(action: str) -> None:
    assert policies.timeout_seconds(release(), action) == 300
    assert policies.timeout_seconds(release(spec={"timeout": "1m"}), action) == 60
    own = {"timeout": "1m", action: {"timeout": "2m"}}
    assert policies.timeout_seconds(release(spec=own), action) == 120
    assert policies.timeout_seconds(release(spec=own), "correct cluster drift") == 60
