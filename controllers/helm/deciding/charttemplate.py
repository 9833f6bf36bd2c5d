"""The HelmChart that a HelmRelease with ``spec.chart`` has, and when it goes. Pure.

It stands beside its source, as ``<namespace>-<name>`` of the HelmRelease, and is applied with
labels that tell the owner. ``status.helmChart`` keeps which one it is, so that it is found again
when the source, or the way to name a chart, changes.
"""

from typing import Final

import msgspec

from crds import HELM_CHART
from crds.helm import GROUP, HelmRelease
from crds.helm_parts import ChartTemplate
from toolkit.errors import AccessDeniedError
from toolkit.objects import Json, ObjectKey, dig

OWNER_NAME: Final = f"{GROUP}/name"
OWNER_NAMESPACE: Final = f"{GROUP}/namespace"


def key(obj: HelmRelease) -> ObjectKey | None:
    """Return where the HelmChart stands; None where the release names its chart otherwise."""
    template = obj.spec.chart
    if template is None:
        return None
    namespace = template.spec.source_ref.namespace or obj.metadata.namespace
    return ObjectKey(namespace, f"{obj.metadata.namespace}-{obj.metadata.name}")


def stale(obj: HelmRelease) -> ObjectKey | None:
    """Return the HelmChart that is to be deleted: one of another place, or of a deleted owner."""
    namespace, slash, name = obj.status.helm_chart.partition("/")
    if not slash or obj.spec.suspend:
        return None
    made = ObjectKey(namespace, name)
    return made if obj.metadata.deletion_timestamp or made != key(obj) else None


def desired(obj: HelmRelease) -> Json | None:
    """Return the HelmChart as it is applied."""
    place, template = key(obj), obj.spec.chart
    if place is None or template is None:
        return None
    said = template.metadata
    owner = {OWNER_NAME: obj.metadata.name, OWNER_NAMESPACE: obj.metadata.namespace}
    metadata: Json = {
        "name": place.name,
        "namespace": place.namespace,
        "labels": {**(said.labels if said else {}), **owner},
    }
    if said and said.annotations:
        metadata["annotations"] = dict(said.annotations)
    return {
        "apiVersion": HELM_CHART.api_version,
        "kind": HELM_CHART.kind,
        "metadata": metadata,
        "spec": _spec(template, obj.spec.interval),
    }


def require_owned(live: Json | None, obj: HelmRelease) -> None:
    """Check that the HelmChart in the place of ours is not that of another HelmRelease.

    ``a/b-c`` and ``a-b/c`` name the same one. Without this check one tenant could choose the chart
    that another one releases. A HelmChart without owner is taken over, as older Flux left them.

    Raises:
        AccessDeniedError: it is.
    """
    labels = dig(live or {}, "metadata", "labels", default={})
    owner = (labels.get(OWNER_NAMESPACE), labels.get(OWNER_NAME))
    if owner in {(None, None), (obj.metadata.namespace, obj.metadata.name)}:
        return
    raise AccessDeniedError(
        f"HelmChart '{key(obj)}' belongs to another HelmRelease: give this one another name"
    )


def applied_message(action: str, place: ObjectKey, template: ChartTemplate) -> str:
    """Return the event about a HelmChart that was ``created`` or ``configured``."""
    ref = template.spec.source_ref
    return (
        f"{action.capitalize()} HelmChart/{place} with SourceRef "
        f"'{ref.kind}/{place.namespace}/{ref.name}'"
    )


def deleted_message(place: ObjectKey) -> str:
    """Return the event about a HelmChart that was deleted."""
    return f"deleted HelmChart '{place}'"


def _spec(template: ChartTemplate, interval: str) -> Json:
    chosen = template.spec
    spec: Json = {
        "chart": chosen.chart,
        "version": chosen.version,
        "sourceRef": {"kind": chosen.source_ref.kind, "name": chosen.source_ref.name},
        "interval": chosen.interval or interval,
        "reconcileStrategy": chosen.reconcile_strategy,
    }
    optional = {
        "valuesFile": chosen.values_file,
        "valuesFiles": list(chosen.values_files),
        "ignoreMissingValuesFiles": chosen.ignore_missing_values_files,
    }
    spec |= {name: value for name, value in optional.items() if value}
    if chosen.verify:
        spec["verify"] = {"provider": chosen.verify.provider, **msgspec.to_builtins(chosen.verify)}
    return spec
