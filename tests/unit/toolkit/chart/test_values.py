"""Values files are chosen, and laid over each other, as Flux does it."""

import pytest

from toolkit.chart import values


def test_maps_are_merged_and_all_else_replaced() -> None:
    below = {"a": 1, "map": {"x": 1, "m": {"z": 1}}, "list": [1, 2]}
    above = {"a": None, "map": {"m": {"w": 2}}, "list": [3]}

    assert values.overlay(below, above) == {
        "a": None,
        "map": {"x": 1, "m": {"z": 1, "w": 2}},
        "list": [3],
    }


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ((), ()),
        (("values.yaml",), ()),
        (("./values.yaml",), ()),
        (("values.yaml", "b.yaml"), ("values.yaml", "b.yaml")),
        (("chart/values.yaml",), ("chart/values.yaml",)),
    ],
)
def test_values_yaml_alone_is_nothing_to_merge(given: tuple[str], chosen: tuple[str]) -> None:
    assert values.chosen(given) == chosen
