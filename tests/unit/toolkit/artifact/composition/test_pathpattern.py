"""What a path pattern captured, as labels of what is made from it."""

import pytest

from toolkit.artifact.composition import pathpattern
from toolkit.artifact.composition.globs import PatternError


def test_what_was_captured_becomes_labels_in_lower_case() -> None:
    assert pathpattern.labels({"app": "Web", "env": "prod-1"}) == {"app": "web", "env": "prod-1"}


@pytest.mark.parametrize("value", ["a b", "-a", "a/b", "x" * 64, "\x1b[31m"])
def test_what_cannot_be_a_label_is_refused(value: str) -> None:
    with pytest.raises(PatternError, match=r"which '\{app\}' captured, cannot be a label"):
        pathpattern.labels({"app": value})
