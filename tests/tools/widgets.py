"""Definitions of a kind ``Widget`` that only tests use, each in a group of its own."""

from collections.abc import Sequence

from toolkit.objects import Json


def definition(group: str, *, required: Sequence[str] = (), **properties: Json) -> Json:
    """Return a definition whose spec has these properties."""
    spec: Json = {"type": "object", "properties": properties}
    if required:
        spec["required"] = list(required)
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def sized(group: str, **properties: Json) -> Json:
    """Return a definition whose spec must have a size."""
    return definition(group, required=["size"], size={"type": "integer"}, **properties)
