"""The CustomResourceDefinition of a kind.

Only the stored version is served. Older versions are declared with their schema, so that they are
documented and ready, but ``served: false``: the API server converts between versions either by
relabelling, which silently drops the fields that v1 lacks, or through a webhook, and there is none
yet. A version that would lose what a user wrote is better refused.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from msgspec import Struct

from crds import schema
from crds.kind import Column, Kind

Manifest: TypeAlias = dict[str, Any]

_INSTANCE: Final = "penstock-system"


def definition(kind: Kind[Struct], *, release: str) -> Manifest:
    """Return the CustomResourceDefinition; ``release`` is Penstock's version, as ``v0.1.0``.

    The labels are those by which the ``flux`` command recognises an installation; the annotation
    keeps variable substitution away from the ``${…}`` in descriptions.
    """
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": kind.crd_name,
            "annotations": {"kustomize.toolkit.fluxcd.io/substitute": "disabled"},
            "labels": {
                "app.kubernetes.io/component": kind.component,
                "app.kubernetes.io/instance": _INSTANCE,
                "app.kubernetes.io/part-of": "flux",
                "app.kubernetes.io/version": release,
            },
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short_names),
                "categories": list(kind.categories),
            },
            "conversion": {"strategy": "None"},
            "versions": list(_versions(kind)),
        },
    }


def _versions(kind: Kind[Struct]) -> Iterator[Manifest]:
    yield _version(kind, kind.version, kind.model) | {"served": True, "storage": True}
    for old in kind.older:
        yield _version(kind, old.version, old.model) | {
            "served": False,
            "storage": False,
            "deprecated": True,
            "deprecationWarning": (
                f"{kind.group}/{old.version} {kind.kind} is deprecated, use {kind.api_version}"
            ),
        }


def _version(kind: Kind[Struct], name: str, model: type[Struct]) -> Manifest:
    return {
        "name": name,
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": schema.schema_of(model)},
        "subresources": {"status": {}},
    }


def _column(column: Column) -> Manifest:
    priority = {"priority": column.priority} if column.priority else {}
    return {"name": column.name, "type": column.type, "jsonPath": column.path} | priority
