"""Columns line up, whatever is in them, and can be cut by programs."""

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


def test_nothing_is_folded_into_less_than_can_be_read() -> None:
    text = table.render(("NAME", "MESSAGE"), [("w" * 30, LONG)], show_header=False, width=22)

    assert text == f"{'w' * 30}   {LONG}\n"


def test_several_columns_are_folded_where_one_is_not_enough() -> None:
    text = table.render(("NAME", "MESSAGE"), [("w" * 30, LONG)], show_header=False, width=30)

    assert text.splitlines() == [
        "wwwwwwwwwwwww   Kustomization",
        "wwwwwwwwwwwww   apply failed:",
        "wwww            the server",
        "                refused it",
    ]


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
