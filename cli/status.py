"""The status of any Flux object: revision, suspended, ready, message. Pure.

The revision is read from the first path that exists, so a new kind needs no branch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from crds import ALERT, ARTIFACT_GENERATOR, EXTERNAL_ARTIFACT, HELM_REPOSITORY, PROVIDER
from crds.extensions import SWITCH
from crds.kind import Kind
from toolkit.objects import Json, dig

REQUESTED_AT: Final = "reconcile.fluxcd.io/requestedAt"
FORCE_AT: Final = "reconcile.fluxcd.io/forceAt"
RESET_AT: Final = "reconcile.fluxcd.io/resetAt"
_STATIC: Final = {
    EXTERNAL_ARTIFACT.kind: "",
    ALERT.kind: "Alert is read when an event comes",
    PROVIDER.kind: "Provider has not sent an event yet",
}
"""Kinds without a controller, and their message before any event."""
SOURCES: Final = "fluxcd-sources"
"""Category of the kinds that produce artifacts."""

_REVISIONS: Final = (
    ("status", "artifact", "revision"),  # sources
    ("status", "lastAppliedRevision"),  # Kustomization
    ("status", "latestRef", "tag"),  # ImagePolicy
    ("status", "lastScanResult", "revision"),  # ImageRepository
    ("status", "lastPushCommit"),  # ImageUpdateAutomation
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """The Ready condition, ``status`` in True, False, Unknown."""

    status: str
    reason: str
    message: str


def condition(obj: Json, kind: str) -> Mapping[str, Any]:
    """Return the condition of a type; an empty mapping if there is none."""
    for row in dig(obj, "status", "conditions", default=()):
        if row.get("type") == kind:
            return dict(row)
    return {}


def readiness(obj: Json) -> Readiness:
    """Return the Ready condition, or Flux's words for an object that was not seen yet.

    Of a Provider that can be used it is what became of the last event.
    """
    kind = str(obj.get("kind"))
    row = condition(obj, "Ready")
    if kind == PROVIDER.kind and row.get("status") != "False":
        row = condition(obj, "Delivering")
    if not row and _STATIC.get(kind):
        return Readiness(status="True", reason="", message=_STATIC[kind])
    if not row and obj.get("kind") == HELM_REPOSITORY.kind and static(obj):
        return Readiness(status="True", reason="", message="Helm repository is Ready")
    if not row:
        return Readiness(status="False", reason="", message="waiting to be reconciled")
    return Readiness(
        status=str(row.get("status") or "Unknown"),
        reason=str(row.get("reason") or ""),
        message=str(row.get("message") or ""),
    )


def revision(obj: Json) -> str:
    """Return the stored or applied revision; empty if there is none."""
    for path in _REVISIONS:
        value = dig(obj, *path)
        if value:
            return str(value)
    for release in dig(obj, "status", "history", default=()):
        if value := release.get("chartVersion"):  # HelmRelease
            return str(value)
    return ""


def suspended(obj: Json) -> bool:
    """Tell whether ``spec.suspend`` is set, or the equivalent annotation."""
    if obj.get("kind") == ARTIFACT_GENERATOR.kind:
        return str(dig(obj, "metadata", "annotations", SWITCH, default="")).lower() == "disabled"
    return bool(dig(obj, "spec", "suspend", default=False))


def suspension(kind: Kind[Any], *, suspend: bool) -> Json:
    """Return the merge patch that suspends or resumes an object of the kind."""
    if kind is ARTIFACT_GENERATOR:
        return {"metadata": {"annotations": {SWITCH: "disabled" if suspend else None}}}
    return {"spec": {"suspend": suspend}}


def static(obj: Json) -> bool:
    """Tell whether the object is only read and never reconciled (flux2 isStatic)."""
    if obj.get("kind") == HELM_REPOSITORY.kind:
        return bool(dig(obj, "spec", "type") == "oci")
    return obj.get("kind") in _STATIC


def is_source(kind: Kind[Any]) -> bool:
    """Tell whether objects of the kind produce artifacts."""
    return SOURCES in kind.categories


def observed(obj: Json) -> bool:
    """Tell whether the controller has observed the current generation.

    Kinds without a controller, such as ExternalArtifact, have no such field; all others begin with
    -1.
    """
    seen = dig(obj, "status", "observedGeneration", default=None)
    return seen is None or bool(seen == dig(obj, "metadata", "generation", default=0))


def settled(obj: Json, *, requested: str = "") -> bool:
    """Tell whether the object is as ready as it will be for its generation and request."""
    if requested and dig(obj, "status", "lastHandledReconcileAt") != requested:
        return False
    ready = condition(obj, "Ready")
    current = ready.get("observedGeneration") in (None, dig(obj, "metadata", "generation"))
    return observed(obj) and current and ready.get("status") == "True"


def failed(obj: Json, *, requested: str = "", begun: bool = False) -> bool:
    """Tell whether the current generation, or the request, has failed.

    Controllers count a generation as observed once it is ready or stalled. A request that is
    answered, or an object that has ``begun``, also fails by the condition of the generation.
    An object that waits for a dependency has not failed: it continues by itself.
    """
    if requested and dig(obj, "status", "lastHandledReconcileAt") != requested:
        return False
    judged = condition(obj, "Ready").get("observedGeneration")
    tried = (begun or requested) and judged == dig(obj, "metadata", "generation")
    if not observed(obj) and not tried:
        return False
    if condition(obj, "Stalled").get("status") == "True":
        return True
    ready = readiness(obj)
    return ready.status == "False" and ready.reason not in ("", "DependencyNotReady")
