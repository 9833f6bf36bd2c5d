"""The CustomResourceDefinition of a kind.

All versions of a kind have the same fields (``crds.versions``), so that most old ones are converted
by changing the label, which the API server does alone. Where values read differently too, the
conversion webhook is needed. The definition does not say so: ``spec.conversion`` belongs to the
gate, which sets it when it is ready to answer (``conversion``), and applying the definition again
leaves it alone. Without a gate, versions that need it are not served: one that would lose what a
user wrote is better refused.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from msgspec import Struct

from crds import schema, versions
from crds.kind import Column, Kind
from crds.schema import Schema

Manifest: TypeAlias = dict[str, Any]

_INSTANCE: Final = "penstock-system"
_OURS: Final = "penstock"


def definition(kind: Kind[Struct], *, release: str, gate: bool = True) -> Manifest:
    """Return the CustomResourceDefinition; ``release`` is Penstock's version, as ``v0.1.0``.

    ``gate`` tells whether the conversion webhook is part of the installation. The annotation keeps
    variable substitution away from the ``${…}`` in descriptions.
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
                "app.kubernetes.io/managed-by": _OURS,
                # The flux command makes the name of the distribution of the two (flux2,
                # cluster_info.go), and deletes what is part of "flux" with all objects.
                "app.kubernetes.io/part-of": _OURS,
                "app.kubernetes.io/version": release,
            },
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.singular,
                # An empty list is not stored, so that the next one to apply it would conflict.
                **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
                "categories": list(kind.categories),
            },
            "versions": list(_versions(kind, gate=gate)),
        },
    }


def conversion(client: Manifest) -> Manifest:
    """Return ``spec.conversion`` for a kind that is ``converted``.

    ``client`` is the ``WebhookClientConfig``: ``service`` or ``url``, and ``caBundle``.
    """
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
    return {"strategy": "Webhook", "webhook": webhook}


def _versions(kind: Kind[Struct], *, gate: bool) -> Iterator[Manifest]:
    newest = versions.newest(kind)
    shared = next((old.version for old in kind.older if old.current), kind.version)
    yield _version(kind, kind.version, newest) | {"served": True, "storage": True}
    for old in kind.older:
        yield _version(kind, old.version, versions.older(kind, old)) | {
            "served": gate or old.relabelled,
            "storage": False,
            **({} if old.current else _deprecated(kind, old.version, shared)),
        }


def _deprecated(kind: Kind[Struct], old: str, shared: str) -> Manifest:
    """Return the warning; it names the newest version that Flux has, too."""
    told = f"{kind.group}/{old} {kind.kind} is deprecated, use {kind.group}/{shared}"
    return {"deprecated": True, "deprecationWarning": told}


def _version(kind: Kind[Struct], name: str, wide: Schema) -> Manifest:
    return {
        "name": name,
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": schema.without_implied(wide)},
        "subresources": {"status": {}} if "status" in wide["properties"] else {},
    }


def _column(column: Column) -> Manifest:
    priority = {"priority": column.priority} if column.priority else {}
    return {"name": column.name, "type": column.type, "jsonPath": column.path} | priority
