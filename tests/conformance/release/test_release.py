"""Values are set and digested as Flux does it, so that its releases are taken over as they are.

What is expected was written by Flux's own library (``github.com/fluxcd/pkg/chartutil`` v1.27.2:
``ReplacePathValue``, ``ReplacePathLiteralValue`` and ``DigestValues``), for every form that plain
texts, numbers and line breaks have in YAML, and for random texts of the characters that matter.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crds.helm_parts import PostRenderer
from crds.kustomize_parts import CommonMetadata
from toolkit.release import digest, setting

HERE = Path(__file__).parent
Json = dict[str, Any]


def read(name: str, parse_int: Callable[[str], float] = int) -> list[Json]:
    rows: list[Json] = json.loads((HERE / name).read_text(), parse_int=parse_int)
    return rows


def _as_go(text: str) -> float:
    """Return the number as Go reads it from JSON: as a float."""
    number = int(text)
    return number if abs(number) < 2**53 else float(text)


def test_values_have_the_digest_that_flux_gives_them() -> None:
    differing = [
        row["values"]
        for row in read("values_digests.json", _as_go)
        if digest.of_values(row["values"]) != row["digest"]
    ]

    assert differing == []


def test_the_order_of_keys_does_not_matter() -> None:
    assert digest.of_values({"a": {"b": 1, "c": 2}, "d": 3}) == digest.of_values(
        {"d": 3, "a": {"c": 2, "b": 1}}
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            [
                {
                    "kustomize": {
                        "patches": [
                            {
                                "patch": "a: <b> & c\n",
                                "target": {
                                    "name": "x",
                                    "labelSelector": "a=b",
                                    "kind": "Deployment",
                                },
                            },
                            {"patch": "kind: X"},
                        ],
                        "images": [
                            {"digest": "sha256:0", "name": "a", "newTag": "v1", "newName": "b"}
                        ],
                    }
                },
                {},
            ],
            "6e44eb8d6e5b872b5cd2a6905121421a6cb0f8453011d51bd28eebfeb5576a25",
        ),
        (
            [{"kustomize": {}}],
            "5efa0f3e99e15014d7dfb8469991b7d3ff11944a42b32fcbee97b5bea2c314df",
        ),
        (
            [{"kustomize": {"patches": [{"patch": "x", "target": {}}]}}],
            "6aac852474df40405833d633e47ba2036651eec98bd2601fbfef1d683a0a3f1a",
        ),
    ],
)
def test_post_renderers_have_the_digest_that_flux_gives_them(
    written: list[Json], expected: str
) -> None:
    renderers = msgspec.convert(written, list[PostRenderer])

    assert digest.of_json(renderers) == f"sha256:{expected}"


def test_common_metadata_has_the_digest_that_flux_gives_it() -> None:
    written = {"labels": {"b": "1", "a": "<2>"}, "annotations": {"x": "y"}}

    found = digest.of_json(msgspec.convert(written, CommonMetadata))

    assert found == ("sha256:7783b259b23ed46fc291bc16341dae10d7147ed3edfd009ddabdd8b6b6e04dec")


def test_a_value_is_set_where_flux_sets_it() -> None:
    differing = [
        (row, found)
        for row in read("target_paths.json")
        if (found := outcome(row)) != row.get("result")
    ]

    assert differing == []


def outcome(row: Json) -> Json | None:
    values: Json = copy.deepcopy(row.get("base", {}))
    put = setting.put_literal if row.get("literal") else setting.put_quoted
    try:
        put(values, row["path"], row["value"])
    except setting.SettingError:
        return None
    return values
