"""Differences of text are told line by line, all others on one line."""

import json

from cli import differences

OLD = json.dumps("a\nb\nc\nd\ne\nf\n")
NEW = json.dumps("a\nb\nc\nd\nE\nf\n")


def test_lines_around_a_change_are_shown() -> None:
    assert list(differences.lines("~", "data.x", OLD, NEW)) == [
        "~ data.x:",
        "    …",
        "      c",
        "      d",
        "    - e",
        "    + E",
        "      f",
    ]


def test_new_text_is_shown_in_lines() -> None:
    assert list(differences.lines("+", "data.x", "", json.dumps("a\nb"))) == [
        "+ data.x:",
        "    …",
        "    + a",
        "    + b",
    ]


def test_values_of_one_line_stay_on_one() -> None:
    assert list(differences.lines("~", "spec.replicas", "1", "3")) == ["~ spec.replicas: 1 → 3"]
    assert list(differences.lines("-", "a", '"x"', "")) == ['- a: "x"']


def test_text_that_was_cut_stays_as_it_is() -> None:
    cut = '"a\\nb… (5000 characters)'

    assert list(differences.lines("+", "a", "", cut)) == [f"+ a: {cut}"]
