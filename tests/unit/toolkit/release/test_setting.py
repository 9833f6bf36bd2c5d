"""What one text may set is bounded, and what it holds is not told."""

from typing import Any

import pytest

from toolkit.release import setting


def refused(path: str, text: str = "s3cret", values: dict[str, Any] | None = None) -> str:
    with pytest.raises(setting.SettingError) as caught:
        setting.put_quoted({} if values is None else values, path, text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("a\\", "s3cret", "has no value"),
        ("a[1]b", "s3cret", "after the index"),
        ("a[x]", "s3cret", "not a number"),
        ("a[", "s3cret", "not a number"),
        ("a[-1]", "s3cret", "between 0 and 65536"),
        ("a[65537]", "s3cret", "between 0 and 65536"),
        ("a[" + "9" * 5000 + "]", "s3cret", "between 0 and 65536"),
        ("a", "1,s3cret", "has no value"),
        ("a", "1,s3cret,", "before a comma"),
        ("a", "{s3cret", "must terminate"),
        ("a..", "s3cret", "ends in a dot"),
        (".".join("a" * 32), "s3cret", "more than 30 levels"),
        ("a", "x,b" + "[0]" * 40 + "=s3cret", "more than 30 indices"),
        (".".join(["a[0]"] * 5000), "s3cret", "more than 30 levels"),
        (".".join(["a" + "[0]" * 30] * 50), "s3cret", "more than 30 levels"),
    ],
)
def test_what_cannot_be_set_is_refused_without_its_text(path: str, text: str, words: str) -> None:
    told = refused(path, text)

    assert words in told
    assert "s3cret" not in told


def test_many_long_lists_are_refused() -> None:
    text = "1," + ",".join(f"x{n}[65536]=1" for n in range(1000))

    assert refused("a", text) == "the lists are too long"


def test_lists_that_grow_entry_by_entry_are_refused_before_they_take_long() -> None:
    text = "1," + ",".join(f"x[{n}]=1" for n in range(60_000))

    assert refused("a", text) == "the lists are too long"


@pytest.mark.parametrize("there", ["text", None, 1, [1]])
def test_a_path_leads_through_objects_alone(there: Any) -> None:
    assert (
        refused("a.b", values={"a": there})
        == "the path leads through something that is not an object"
    )


@pytest.mark.parametrize("there", ["text", None, 1, {"b": 1}])
def test_an_index_is_of_a_list(there: Any) -> None:
    assert refused("a[0]", values={"a": there}) == "an index is of something that is not a list"


@pytest.mark.parametrize("path", ["a", "a.b", "a[0]", r"a\.b.c", "a[0].b[1]", "a/b"])
def test_a_path_can_be_checked_without_values(path: str) -> None:
    setting.require_path(path)


@pytest.mark.parametrize("path", ["", "a.", "a[1]b", "a[]", "a[1", "\\"])
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    with pytest.raises(setting.SettingError):
        setting.require_path(path)


def test_an_empty_value_leaves_a_list_as_it_was() -> None:
    values: dict[str, Any] = {}

    setting.put_quoted(values, "a[0].b", "")
    setting.put_quoted(values, "c.d", "")

    assert values == {"a": [], "c": {"d": ""}}
