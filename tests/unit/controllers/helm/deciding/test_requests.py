"""An annotation acts once, and together with the one that asks for a reconcile."""

from dataclasses import replace
from typing import Any

import pytest

from controllers.helm.deciding import requests
from controllers.helm.deciding.requests import FORCE, REQUESTED, RESET
from tests.fakes.releases import DESIRED, release

Json = dict[str, Any]

ATTEMPTED: Json = {
    "lastAttemptedGeneration": 2,
    "lastAttemptedRevision": DESIRED.chart_version,
    "lastAttemptedConfigDigest": DESIRED.config_digest,
}


@pytest.mark.parametrize("annotation", [FORCE, RESET])
@pytest.mark.parametrize(
    ("requested", "asked", "reconciled", "seen", "acts"),
    [
        ("b", "b", "", "", True),
        ("b", "b", "a", "a", True),
        ("b", "a", "", "", False),
        (None, "b", "", "", False),
        ("b", "b", "b", "", False),
        ("b", "b", "", "b", False),
        ("b", None, "", "a", False),
    ],
)
def test_an_annotation_acts_once(  # noqa: PLR0917 - the columns
    annotation: str,
    requested: str | None,
    asked: str | None,
    reconciled: str,
    seen: str,
    acts: bool,  # noqa: FBT001 - a column
) -> None:
    given = {REQUESTED: requested, annotation: asked}
    status = {
        "lastHandledReconcileAt": reconciled,
        "lastHandledForceAt": seen,
        "lastHandledResetAt": seen,
    }
    obj = release(
        annotations={key: value for key, value in given.items() if value is not None},
        status=status,
    )

    found = requests.force(obj) if annotation == FORCE else requests.reset(obj)

    assert found.acts is acts
    assert found.handled == (seen if asked is None else asked)


def test_failures_count_while_the_same_is_desired() -> None:
    assert requests.forgets_failures(release(status=ATTEMPTED), DESIRED) == ""


@pytest.mark.parametrize(
    ("status", "desired", "annotations", "why"),
    [
        ({"lastAttemptedGeneration": 1}, {}, {}, "generation differs from last attempt"),
        ({}, {"chart_version": "2.0.0"}, {}, "chart version differs from last attempt"),
        ({}, {"config_digest": "sha256:0"}, {}, "values differ from last attempt"),
        ({"lastAttemptedConfigDigest": ""}, {"config_digest": "sha256:0"}, {}, ""),
        ({}, {}, {REQUESTED: "a", RESET: "a"}, "reset requested through annotation"),
    ],
)
def test_failures_are_forgotten_when_something_else_is_desired(
    status: Json, desired: Json, annotations: Json, why: str
) -> None:
    obj = release(status={**ATTEMPTED, **status}, annotations=annotations)

    assert requests.forgets_failures(obj, replace(DESIRED, **desired)) == why
