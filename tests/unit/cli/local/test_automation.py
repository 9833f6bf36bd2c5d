"""The diff of a preview is that of the setters: line by line, in time linear in the lines."""

import difflib

import pytest

from cli.local import automation


def test_a_diff_is_a_unified_one() -> None:
    before = [f"line {number}" for number in range(40)]
    after = [*before]
    after[0], after[1], after[20], after[39] = "first", "second", "image: 2", "last"

    told = automation.unified("a.yaml", "\n".join([*before, ""]), "\n".join([*after, ""]))

    expected = difflib.unified_diff(before, after, "a/a.yaml", "b/a.yaml", lineterm="")
    assert sorted(told.splitlines()) == sorted(expected)
    assert told.count("@@ -") == 3


def test_no_line_is_added() -> None:
    with pytest.raises(ValueError, match="spans lines"):
        automation.unified("a", "a\n", "a\nb\n")


def test_any_changes_are_found() -> None:
    before = [str(number) for number in range(200)]
    changed = {0, 1, 5, 13, 20, 27, 60, 66, 73, 199}
    after = [f"{line}x" if number in changed else line for number, line in enumerate(before)]

    told = automation.unified("a", "\n".join(before), "\n".join(after)).splitlines()[2:]

    assert [line[1:] for line in told if line.startswith("+")] == [
        line for line in after if line.endswith("x")
    ]
    shown = [line[1:] for line in told if line[0] in " -"]
    assert set(shown) <= set(before)
