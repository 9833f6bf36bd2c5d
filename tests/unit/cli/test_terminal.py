"""What others wrote cannot command a terminal."""

import pytest

from cli import differences, loglines, table
from cli.terminal import printable

HOSTILE = "a\x1b[2Jb\x9b1mc\u202ed\re\x07"


@pytest.mark.parametrize(
    ("text", "keep", "shown"),
    [
        ("plain, ümlaut → 漢字", "", "plain, ümlaut → 漢字"),
        ("no\N{NO-BREAK SPACE}break", "", "no\N{NO-BREAK SPACE}break"),
        (HOSTILE, "\n", "a�[2Jb�1mc�d�e�"),
        ("one\ntwo", "\n", "one\ntwo"),
        ("one\ntwo", "", "one�two"),
    ],
)
def test_control_characters_are_replaced(text: str, keep: str, shown: str) -> None:
    assert printable(text, keep=keep) == shown


def test_what_is_printed_of_objects_has_none() -> None:
    row = table.render(("MESSAGE",), [(HOSTILE,)], show_header=False)
    cell = table.render(("MESSAGE",), [(HOSTILE,)], show_header=False, breaks=True)
    line = loglines.Line(time="t", level="info", kind="", namespace="", name="", message=HOSTILE)
    field = "".join(differences.lines("~", "x", HOSTILE, '"a\\u001b[2J\\nb"'))

    for text in (row, cell, loglines.render(line), field):
        assert not {"\x1b", "\x9b", "\u202e", "\x07", "\r"} & set(text)


def test_a_line_break_in_a_message_forges_no_line_of_a_log() -> None:
    line = loglines.parse('{"ts": "1", "level": "info", "msg": "a\\n2 error forged"}')

    assert line is not None
    assert loglines.render(line) == "1 info a\n  2 error forged"
