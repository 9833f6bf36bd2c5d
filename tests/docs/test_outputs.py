"""Outputs in documents name a run, every run is shown, and the comparison sees other words."""

import pytest

from tests.docs.outputs import blocks, comparison, picture, runs


def test_every_output_names_a_run_and_every_run_is_shown() -> None:
    assert {block.run for block in blocks.blocks()} == set(runs.RUNS)


@pytest.mark.parametrize(
    ("shown", "run"),
    [
        ("✔ applied in 1.2 s", "✔ applied in 130 ms"),
        ("3 objects, 14 KiB", "1 objects, 200 B"),
        ("one line\nthat is folded", "one line that\n  is folded"),
        ("first … last", "first and second and last"),
        ("NAME\n…/shop 6 1/5", "NAME\ninventory.example.com/shop 5 5/5"),
        ("bold", "\x1b[1mbold\x1b[0m"),
    ],
)
def test_figures_folds_and_what_is_left_out_do_not_count(shown: str, run: str) -> None:
    assert comparison.difference(shown, run) is None


@pytest.mark.parametrize(
    ("shown", "run", "seen"),
    [
        ("✔ applied in 1 s", "✔ was applied in 1 s", "✔ applied"),
        ("first … last", "last and first", "last"),
        ("Ready=False: denied", "Ready=False: refused", "denied"),
    ],
)
def test_other_words_are_a_difference(shown: str, run: str, seen: str) -> None:
    assert seen in (comparison.difference(shown, run) or "")


def test_a_picture_shows_what_was_printed() -> None:
    lines = ["1. First", "  ✔ <applied> & ready   1 s", "", "$ kubectl get"]

    drawn = picture.draw(lines, label="It's a test")

    assert picture.text(drawn).splitlines() == lines
