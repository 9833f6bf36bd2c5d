"""Manifests of the documentation can be read, and have the fields that our kinds have."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from crds import KINDS, versions
from crds.kind import Kind

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OURS = {(kind.api_version, kind.kind): kind for kind in KINDS}


def _blocks() -> Iterator[Any]:
    for page in PAGES:
        text = page.read_text()
        for found in re.finditer(r"```yaml\n(.*?)```", text, re.DOTALL):
            line = text[: found.start()].count("\n") + 1
            yield pytest.param(found[1], id=f"{page.relative_to(ROOT)}:{line}")


BLOCKS = list(_blocks())


def unknown(node: Any, schema: Any, path: str = "") -> list[str]:
    """Return the fields that the schema does not have."""
    if isinstance(node, list):
        return [each for item in node for each in unknown(item, schema.get("items", {}), path)]
    properties = schema.get("properties")
    if not isinstance(node, dict) or properties is None:
        return []
    strange = [f"{path}.{name}" for name in node if name not in properties]
    known = [(name, value) for name, value in node.items() if name in properties]
    return strange + [
        each for name, value in known for each in unknown(value, properties[name], f"{path}.{name}")
    ]


def strange(kind: Kind[Any], spec: Any) -> list[str]:
    return unknown(spec, versions.newest(kind)["properties"].get("spec", {}))


@pytest.mark.parametrize("text", BLOCKS)
def test_a_manifest_has_the_fields_of_its_kind(text: str) -> None:
    for obj in yaml.safe_load_all(text):
        if not isinstance(obj, dict) or "spec" not in obj:
            continue
        kind = OURS.get((obj.get("apiVersion", ""), obj.get("kind", "")))
        if kind:
            assert strange(kind, obj["spec"]) == []
        elif "kind" not in obj:
            assert any(strange(each, obj["spec"]) == [] for each in KINDS)


@pytest.mark.parametrize("text", BLOCKS)
def test_a_whole_manifest_is_one_that_its_kind_takes(text: str) -> None:
    for obj in yaml.safe_load_all(text):
        kind = OURS.get(
            (obj.get("apiVersion", ""), obj.get("kind", "")) if _whole(obj) else ("", "")
        )
        if kind:
            msgspec.convert({**obj, "status": {}}, kind.model)


def _whole(obj: Any) -> bool:
    return isinstance(obj, dict) and "metadata" in obj
