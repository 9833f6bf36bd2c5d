"""The HelmChart of a HelmRelease with ``spec.chart``, and when it must be deleted. Pure.

The HelmChart is in the namespace of the source. Its name is ``<namespace>-<name>`` of the
HelmRelease, and its labels name the owner. If that HelmChart belongs to another owner, the name is
``helmrelease.<namespace>.<name>`` (``renamed``). ``status.helmChart`` names the HelmChart, so that
it can be deleted when the source changes or ``spec.chartRef`` replaces ``spec.chart``.
"""

import msgspec
from msgspec import structs

from controllers.helm.deciding.orders import MANAGER
from crds import HELM_CHART
from crds.helm import OWNER_NAME, OWNER_NAMESPACE, HelmRelease, chart_name, other_chart_name
from crds.helm_parts import ChartTemplate
from crds.source_helm import HelmChart
from toolkit.errors import AccessDeniedError
from toolkit.objects import Json, ObjectKey, dig
from toolkit.policy import origins


def key(obj: HelmRelease) -> ObjectKey | None:
    """Return the key of the HelmChart; None if the HelmRelease has no ``spec.chart``."""
    template = obj.spec.chart
    if template is None:
        return None
    namespace = template.spec.source_ref.namespace or obj.metadata.namespace
    return ObjectKey(namespace, _name(obj))


def other_key(obj: HelmRelease) -> ObjectKey | None:
    """Return the key of the HelmChart if another owner has the one of Flux's name."""
    place, meta = key(obj), obj.metadata
    name = other_chart_name(namespace=meta.namespace, name=meta.name)
    return ObjectKey(place.namespace, name) if place else None


def renamed(obj: HelmRelease) -> bool:
    """Tell whether the HelmChart has another name than in Flux."""
    return key(obj) is not None and key(obj) == other_key(obj)


def stale(obj: HelmRelease) -> ObjectKey | None:
    """Return the HelmChart to delete: its key has changed, or its owner is being deleted.

    A process that ended early may have created a HelmChart that no status names. So a deleted owner
    without ``status.helmChart`` returns the key from its spec.
    """
    namespace, slash, name = obj.status.helm_chart.partition("/")
    deleted = bool(obj.metadata.deletion_timestamp)
    if obj.spec.suspend and not deleted:
        return None
    if not slash:
        return key(obj) if deleted else None
    made = ObjectKey(namespace, name)
    return made if deleted or made != key(obj) else None


def desired(obj: HelmRelease) -> Json | None:
    """Return the HelmChart to apply; None if the HelmRelease has no ``spec.chart``."""
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


def differs(found: HelmChart, wanted: Json) -> bool:
    """Tell whether the spec of a HelmChart is another than the template's.

    It does not matter who wrote a field: another field manager can add fields, such as values
    files, that an apply leaves in place.
    """
    return found.spec != msgspec.convert(wanted, HelmChart).spec


def stands(found: HelmChart, wanted: Json) -> bool:
    """Tell whether a HelmChart is as desired, so that an apply would change nothing."""
    meta = wanted["metadata"]
    return (
        not differs(found, wanted)
        and found.metadata.deletion_timestamp is None
        and meta["labels"].items() <= found.metadata.labels.items()
        and meta.get("annotations", {}).items() <= found.metadata.annotations.items()
    )


def owner(found: HelmChart) -> ObjectKey:
    """Return the HelmRelease that the labels of a HelmChart name; both parts may be empty."""
    labels = found.metadata.labels
    return ObjectKey(labels.get(OWNER_NAMESPACE, ""), labels.get(OWNER_NAME, ""))


def unusable(found: HelmChart, obj: HelmRelease) -> str:
    """Return why the chart of a HelmChart is not the one of ``spec.chart``; empty if it is.

    The interval does not count, because that of a suspended HelmRelease is not corrected, and it
    chooses no content. The spec may have been another one when the artifact was made. The
    artifact tells what it was made for, unless an earlier version of Penstock made it.
    """
    wanted = desired(obj)
    if wanted is None:
        return ""
    template = msgspec.convert(wanted, HelmChart)
    if structs.replace(found.spec, interval=template.spec.interval) != template.spec:
        return "its spec differs from spec.chart of the HelmRelease, and is being corrected"
    stored = found.status.artifact
    made = origins.read(stored.metadata) if stored else ()
    meant = origins.asked(msgspec.to_builtins(template))
    if made and made[0].asked not in {"", meant}:
        return "its artifact was made for another spec than spec.chart of the HelmRelease"
    return ""


def require_owned(live: Json | None, obj: HelmRelease) -> None:
    """Require that the live HelmChart, if there is one, belongs to this HelmRelease.

    Raises:
        AccessDeniedError: the HelmChart belongs to another owner.
    """
    if live is None or owned(live, obj):
        return
    if any(_owner(live)):
        raise AccessDeniedError(
            f"HelmChart '{_key(live)}' belongs to another HelmRelease: give this one another name"
        )
    raise AccessDeniedError(
        f"HelmChart '{_key(live)}' was not made for this HelmRelease: give this one another name,"
        " or name the HelmChart in spec.chartRef instead"
    )


def owned(live: Json, obj: HelmRelease) -> bool:
    """Tell whether a HelmChart belongs to this HelmRelease.

    The HelmReleases ``a/b-c`` and ``a-b/c`` have the same Flux name, and an administrator may have
    created a shared HelmChart with that name. Without this check a tenant could choose the chart
    that others release. Older versions of Flux set no owner labels. A HelmChart without them is
    recognized by its name and its field manager, which a tenant of another namespace cannot set.
    """
    if labelled(live, obj):
        return True
    near = dig(live, "metadata", "namespace") == obj.metadata.namespace
    fields = dig(live, "metadata", "managedFields", default=[])
    return (
        not any(_owner(live))
        and dig(live, "metadata", "name") == _name(obj)
        and (near or any(each.get("manager") == MANAGER for each in fields))
    )


def labelled(live: Json, obj: HelmRelease) -> bool:
    """Tell whether the labels of a HelmChart name this HelmRelease as the owner."""
    return _owner(live) == (obj.metadata.namespace, obj.metadata.name)


def _owner(live: Json) -> tuple[str | None, str | None]:
    labels = dig(live, "metadata", "labels", default={})
    return labels.get(OWNER_NAMESPACE), labels.get(OWNER_NAME)


def _name(obj: HelmRelease) -> str:
    meta = obj.metadata
    return chart_name(namespace=meta.namespace, name=meta.name, told=obj.status.helm_chart)


def _key(live: Json) -> ObjectKey:
    return ObjectKey(dig(live, "metadata", "namespace"), dig(live, "metadata", "name"))


def applied_message(action: str, place: ObjectKey, template: ChartTemplate) -> str:
    """Return the message of the event for a HelmChart that was ``created`` or ``configured``."""
    ref = template.spec.source_ref
    return (
        f"{action.capitalize()} HelmChart/{place} with SourceRef "
        f"'{ref.kind}/{place.namespace}/{ref.name}'"
    )


def deleted_message(place: ObjectKey) -> str:
    """Return the message of the event for a deleted HelmChart."""
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
