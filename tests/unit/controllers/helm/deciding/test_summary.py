"""Ready tells what the actions came to, the most important one of the newest generation."""

from typing import Any

import pytest

from controllers.helm.deciding.summary import Ready, ready
from crds.meta import Condition
from tests.fakes.releases import release

Json = dict[str, Any]

TESTS: Json = {"test": {"enable": True}}
IGNORED: Json = {"test": {"enable": True, "ignoreFailures": True}}


def condition(kind: str, status: Any, generation: int = 2) -> Condition:
    return Condition(
        type=kind,
        status=status,
        reason=f"{kind}Reason",
        message=f"about {kind}",
        last_transition_time="2026-01-01T00:00:00Z",
        observed_generation=generation,
    )


@pytest.mark.parametrize(
    ("spec", "given", "expected"),
    [
        ({}, {"Released": "True"}, ("Released", "True")),
        ({}, {"Released": "False"}, ("Released", "False")),
        ({}, {"Remediated": "True"}, ("Remediated", "False")),
        (TESTS, {"Released": "True", "TestSuccess": "False"}, ("TestSuccess", "False")),
        (TESTS, {"Released": "True", "TestSuccess": "Unknown"}, ("TestSuccess", "Unknown")),
        (IGNORED, {"Released": "True", "TestSuccess": "False"}, ("Released", "True")),
        ({}, {"Released": "True", "TestSuccess": "False"}, ("Released", "True")),
        ({}, {"Released": "True", "Stalled": "True", "Drifted": "True"}, ("Released", "True")),
    ],
)
def test_the_most_important_condition_is_told(
    spec: Json, given: Json, expected: tuple[str, Any]
) -> None:
    found = ready(release(spec=spec), [condition(*each) for each in given.items()])

    kind, status = expected
    assert found == Ready(status=status, reason=f"{kind}Reason", message=f"about {kind}")


@pytest.mark.parametrize(
    ("remediated", "told"),
    [("True", ["{cause}", "Remediated"]), ("False", ["Remediated", "{cause}"])],
)
@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({"Released": "False"}, "Released"),
        ({"Released": "True", "TestSuccess": "False"}, "TestSuccess"),
    ],
)
def test_a_failure_comes_before_its_remediation_unless_that_failed(
    given: Json, cause: str, remediated: str, told: list[str]
) -> None:
    conditions = [condition(*each) for each in given.items()]

    found = ready(release(spec=TESTS), [*conditions, condition("Remediated", remediated)])

    kinds = [each.format(cause=cause) for each in told]
    message = "\n".join(f"about {kind}" for kind in kinds)
    assert found == Ready(status="False", reason=f"{kinds[0]}Reason", message=message)


def test_what_an_older_generation_came_to_does_not_count() -> None:
    conditions = [condition("Remediated", "True", 1), condition("Released", "True", 2)]

    found = ready(release(), conditions)

    assert found is not None
    assert (found.status, found.reason) == ("True", "ReleasedReason")


def test_nothing_is_told_before_anything_was_done() -> None:
    assert ready(release(), [condition("Ready", "Unknown")]) is None
