"""Which refusals of the server mean that an object must be recreated."""

import time

import pytest

from toolkit.apply import recreate
from toolkit.kube.errors import ApiError, Cause, ForbiddenError, InvalidError


def _invalid(*messages: str) -> InvalidError:
    causes = tuple(Cause(reason="FieldValueInvalid", message=m, field="spec") for m in messages)
    return InvalidError("invalid", status=422, api_reason="Invalid", causes=causes)


@pytest.mark.parametrize(
    ("error", "recreated"),
    [
        (_invalid('Invalid value: "b": field is immutable'), True),
        (_invalid("Forbidden: updates to provisioner are forbidden."), True),
        (_invalid(f'Invalid value: "{"b" * 10_000}": may not change once set'), True),
        (_invalid("Invalid value: 1: field is immutable", "Required value"), False),
        (_invalid(), False),
        (ForbiddenError("field is immutable", status=403), False),
    ],
)
def test_only_changes_of_immutable_fields_recreate(error: ApiError, recreated: bool) -> None:  # noqa: FBT001 - a column
    assert recreate.immutable(error) is recreated


def test_time_for_a_message_does_not_grow_with_the_refused_value() -> None:
    value = "updates to " * 100_000
    began = time.process_time()

    assert not recreate.immutable(_invalid(f'Invalid value: "{value}": must be a label'))

    assert time.process_time() - began < 1
