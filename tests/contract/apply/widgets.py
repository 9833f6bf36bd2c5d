"""A definition of a kind ``Widget`` that only tests use."""

from toolkit.objects import Json

_SCHEMA = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


def definition(group: str, *, properties: Json | None = None) -> Json:
    spec = {**_SCHEMA, "properties": {**_SCHEMA["properties"], **(properties or {})}}  # type: ignore[dict-item] # literal
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }
