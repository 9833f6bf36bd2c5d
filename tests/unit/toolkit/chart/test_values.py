"""Values files are merged in their order, as Flux merges them."""

import pytest

from toolkit.chart import document, values
from toolkit.chart.errors import ValuesFilesError

FILES = {
    "values.yaml": b"a: 1\nmap: {x: 1, m: {z: 1}}\nlist: [1, 2]\n",
    "prod.yaml": b"a: 2\nmap: {m: {w: 2}}\nlist: [3]\nnew: true\n",
    "null.yaml": b"a:\nmap: null\n",
    "empty.yaml": b"# nothing\n",
    "list.yaml": b"- a\n",
    "broken.yaml": b"a: [\n",
}


def merged(*names: str, ignore_missing: bool = False) -> tuple[object, tuple[str, ...]]:
    data, used = values.merge(names, FILES.get, ignore_missing=ignore_missing)
    return document.load(data), used


def test_maps_are_merged_and_all_else_replaced() -> None:
    content, used = merged("values.yaml", "prod.yaml")

    assert content == {
        "a": 2,
        "map": {"x": 1, "m": {"z": 1, "w": 2}},
        "list": [3],
        "new": True,
    }
    assert used == ("values.yaml", "prod.yaml")


def test_later_file_wins() -> None:
    assert merged("prod.yaml", "values.yaml")[0] == {
        "a": 1,
        "map": {"x": 1, "m": {"z": 1, "w": 2}},
        "list": [1, 2],
        "new": True,
    }


def test_null_is_kept_for_helm_to_drop() -> None:
    assert merged("values.yaml", "null.yaml")[0] == {"a": None, "map": None, "list": [1, 2]}


def test_empty_file_changes_nothing() -> None:
    assert merged("prod.yaml", "empty.yaml") == (
        merged("prod.yaml")[0],
        ("prod.yaml", "empty.yaml"),
    )


def test_missing_file_is_an_error_that_tells_the_way_around() -> None:
    with pytest.raises(ValuesFilesError, match=r"'gone.yaml'.*ignoreMissingValuesFiles"):
        merged("gone.yaml")


def test_missing_file_can_be_ignored() -> None:
    assert merged("gone.yaml", "prod.yaml", ignore_missing=True)[1] == ("prod.yaml",)


@pytest.mark.parametrize("name", ["list.yaml", "broken.yaml"])
def test_what_is_no_mapping_is_refused(name: str) -> None:
    with pytest.raises(ValuesFilesError, match=f"'{name}' cannot be read"):
        merged(name)


def test_more_files_than_can_be_meant_are_refused() -> None:
    with pytest.raises(ValuesFilesError, match="more than 100"):
        merged(*["values.yaml"] * 101)


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
