"""Status selectors and object names, as users write them."""

import pytest

from cli import errors, selectors
from toolkit.objects import Json


def object_with(*conditions: tuple[str, str]) -> Json:
    rows = [{"type": kind, "status": value} for kind, value in conditions]
    return {"status": {"conditions": rows}}


@pytest.mark.parametrize("text", ["ready=false", "Ready=False", " READY = FALSE "])
def test_status_selector_ignores_case_and_blanks(text: str) -> None:
    selector = selectors.StatusSelector.parse(text)

    assert selector.matches(object_with(("Ready", "False")))
    assert not selector.matches(object_with(("Ready", "True")))


def test_object_that_was_never_seen_counts_as_not_ready() -> None:
    assert selectors.StatusSelector.parse("ready=false").matches({})


def test_any_condition_type_can_be_selected() -> None:
    selector = selectors.StatusSelector.parse("stalled=true")

    assert selector.matches(object_with(("Ready", "False"), ("Stalled", "True")))
    assert not selector.matches(object_with(("Ready", "False")))


@pytest.mark.parametrize("text", ["ready", "ready=", "=true", ""])
def test_incomplete_status_selector_is_refused(text: str) -> None:
    with pytest.raises(errors.UsageError, match="such as ready=false"):
        selectors.StatusSelector.parse(text)


@pytest.mark.parametrize("words", [("deployment/web",), ("deployment", "web")])
def test_object_is_named_in_one_word_or_two(words: tuple[str, ...]) -> None:
    assert selectors.kind_and_name(words) == ("deployment", "web")


@pytest.mark.parametrize("words", [(), ("web",), ("deployment/",), ("a", "b", "c"), ("a/b/c",)])
def test_anything_else_names_no_object(words: tuple[str, ...]) -> None:
    with pytest.raises(errors.UsageError, match="KIND/NAME"):
        selectors.kind_and_name(words)


def test_several_objects_are_named_with_their_kinds() -> None:
    assert selectors.several(("a/b", "c/d")) == (("a", "b"), ("c", "d"))
    assert selectors.several(("a", "b")) == (("a", "b"),)
    assert selectors.several(("a", "b", "c")) == (("a", "b"), ("a", "c"))
    assert selectors.several(("a/b",)) == (("a", "b"),)


@pytest.mark.parametrize("words", [("a", "b/c"), ("a/b", "c"), ("a/b", "c/"), ()])
def test_names_without_kinds_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(errors.UsageError):
        selectors.several(words)
