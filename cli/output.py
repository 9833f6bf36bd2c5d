"""``-o json|yaml|name``: objects for programs, without what only the API server reads."""

import json
from collections.abc import Sequence
from typing import Any, Final

import yaml

from toolkit.objects import Json, gvk_of, key_of

FORMATS: Final = ("json", "yaml", "name")


def render(objects: Sequence[Json], fmt: str, *, single: bool) -> str:
    """Return the objects in one of ``FORMATS``; ``single`` prints an object, not a List."""
    if fmt == "name":
        return "".join(f"{_name(obj)}\n" for obj in objects)
    cleaned = [without_managed_fields(obj) for obj in objects]
    return encode(cleaned[0] if single and cleaned else _list(cleaned), fmt)


def encode(document: Any, fmt: str) -> str:
    """Return a document as ``json`` or ``yaml``."""
    if fmt == "json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return to_yaml(document)


def to_yaml(document: Any) -> str:
    """Return YAML with keys in the order given and text blocks as blocks."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)


def without_managed_fields(obj: Json) -> Json:
    """Return a copy without ``metadata.managedFields``."""
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
    return {**obj, "metadata": metadata}


def _list(objects: list[Json]) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": objects}


def _name(obj: Json) -> str:
    gvk = gvk_of(obj)
    kind = f"{gvk.kind.lower()}.{gvk.group}" if gvk.group else gvk.kind.lower()
    return f"{kind}/{key_of(obj).name}"


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- PyYAML's signature
        """Write no anchors, which make manifests hard to read."""
        return True


def _text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    style = "|" if "\n" in data else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _text)
