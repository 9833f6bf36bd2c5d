"""Columns line up, whatever is in them, and can be cut by programs."""

import pytest

from cli import table


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    text = table.render(
        ("NAME", "READY"), [("web", "True"), ("database", "False")], show_header=True
    )

    assert text == "NAME       READY\nweb        True\ndatabase   False\n"


def test_header_can_be_left_out_and_then_takes_no_width() -> None:
    text = table.render(("A LONG HEADER", "X"), [("a", "b")], show_header=False)

    assert text == "a   b\n"


def test_message_of_several_lines_stays_on_one() -> None:
    text = table.render(("NAME", "MESSAGE"), [("web", "first\n  second")], show_header=True)

    assert text.splitlines()[1] == "web    first second"


def test_no_rows_print_nothing_not_even_a_header() -> None:
    assert table.render(("NAME",), [], show_header=True) == ""


def test_empty_last_cells_leave_no_trailing_blanks() -> None:
    text = table.render(("NAME", "REVISION"), [("web", "")], show_header=True)

    assert text.splitlines()[1] == "web"


def test_stream_prints_its_header_once_and_keeps_its_widest_columns() -> None:
    lines = table.Stream(("NAME", "READY"), show_header=True)

    first = lines.render(("database", "True"))
    second = lines.render(("web", "False"))

    assert first == "NAME       READY\ndatabase   True\n"
    assert second == "web        False\n"


def test_rows_that_are_known_to_come_fit_from_the_first_line_on() -> None:
    rows = [("a", "True"), ("flux-system", "False")]
    stream = table.Stream(("NAME", "READY"), show_header=True)
    stream.fit(rows)

    text = "".join(stream.render(row) for row in rows)

    assert {
        line.index(word)
        for line, word in zip(text.splitlines(), ("READY", "True", "False"), strict=True)
    } == {14}


LONG = "Kustomization apply failed: the server refused it"


def test_widest_column_is_folded_where_the_terminal_is_narrow() -> None:
    text = table.render(
        ("NAME", "MESSAGE", "AGE"),
        [("web", LONG, "5m"), ("db", "ok", "1h")],
        show_header=True,
        width=45,
    )

    assert text.splitlines() == [
        f"NAME   {'MESSAGE':<32}   AGE",
        f"web    {'Kustomization apply failed: the':<32}   5m",
        "       server refused it",
        f"db     {'ok':<32}   1h",
    ]
    assert max(map(len, text.splitlines())) <= 45


def test_what_does_not_fit_beside_a_name_stands_below_it() -> None:
    rows = [("w" * 30, LONG), ("db", "ok")]
    text = table.render(("NAME", "MESSAGE"), rows, show_header=False, width=40)

    assert text.splitlines() == [
        "w" * 30,
        "  Kustomization apply failed: the server",
        "  refused it",
        f"{'db':<30}   ok",
    ]


def test_several_columns_are_folded_where_one_is_not_enough() -> None:
    text = table.render(("NAME", "MESSAGE"), [(LONG, LONG)], show_header=False, width=60)

    assert len(text.splitlines()) == 2
    assert max(map(len, text.splitlines())) <= 60


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100])
def test_no_word_is_broken_on_a_narrow_terminal(width: int) -> None:
    rows = [
        ("flux-system", "infrastructure-controllers", "main@sha1:01234567", "False", "True", ""),
        ("team-a", "web", "main@sha1:01234567", "False", "False", LONG),
    ]
    header = ("NAMESPACE", "NAME", "REVISION", "SUSPENDED", "READY", "MESSAGE")

    text = table.render(header, rows, show_header=True, width=width)

    assert sorted(text.split()) == sorted(" ".join(map(" ".join, (header, *rows))).split())


def test_a_row_that_is_well_takes_one_line_of_80() -> None:
    rows = [
        ("flux-system", "infra-controllers", "main@sha1:01234567", "False", "True", ""),
        ("flux-system", "apps", "main@sha1:01234567", "False", "False", LONG * 2),
    ]
    header = ("NAMESPACE", "NAME", "REVISION", "SUSPENDED", "READY", "MESSAGE")

    lines = table.render(header, rows, show_header=True, width=80).splitlines()

    assert [line.split()[-1] for line in lines[:4]] == ["READY", "MESSAGE", "True", "False"]
    assert lines[4].startswith("  Kustomization apply failed")


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("READY", "False", "31"),
        ("READY", "Unknown", "33"),
        ("RESULT", "refused", "31"),
        ("TYPE", "Warning", "33"),
    ],
)
def test_a_row_that_is_not_well_has_a_colour(header: str, value: str, code: str) -> None:
    rows = [("a", value, "x"), ("b", "True", "y")]

    text = table.render(("NAME", header, "MESSAGE"), rows, show_header=True, colour=True)

    assert [line.startswith(f"\x1b[{code}m") for line in text.splitlines()] == [False, True, False]


def test_there_are_no_colours_without_a_terminal() -> None:
    assert "\x1b" not in table.render(("READY",), [("False",)], show_header=True)


def test_nothing_is_folded_for_programs() -> None:
    assert table.render(("A", "B"), [("a", LONG * 9)], show_header=False).count("\n") == 1


def test_line_breaks_stay_where_they_are_wanted() -> None:
    text = table.render(
        ("OBJECT", "MESSAGE"), [("ks/apps", "applied:\n  a\n  b\n")], show_header=True, breaks=True
    )

    assert text.splitlines() == [
        "OBJECT    MESSAGE",
        "ks/apps   applied:",
        "            a",
        "            b",
    ]


def test_stream_folds_as_a_table_does() -> None:
    lines = table.Stream(("NAME", "MESSAGE"), show_header=False, width=40)

    assert lines.render(("web", LONG)).splitlines() == [
        "web    Kustomization apply failed: the",
        "       server refused it",
    ]
