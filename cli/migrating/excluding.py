"""Exclude Flux's own objects from the reconciliation of the repository that has them.

Both controllers honour the annotation ``reconcile: disabled`` on the live object: it is neither
applied nor pruned, whatever Git has (``docs/adr/0043-leave-fluxs-own-objects-alone.md``).
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from certs import injection
from cli.migrating.memory import MANAGER, Part
from cli.migrating.survey import Survey
from toolkit.apply import ownership
from toolkit.apply.ownership import KUSTOMIZE_GROUP
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.objects import Json, ObjectKey, dig, ref_of

ANNOTATION: Final = f"{KUSTOMIZE_GROUP}/reconcile"
_DISABLED: Final = "disabled"
_LABELS: Final = tuple(
    f"app.kubernetes.io/{name}"
    for name in ("component", "instance", "managed-by", "part-of", "version")
)
_OWNER: Final = (f"{KUSTOMIZE_GROUP}/name", f"{KUSTOMIZE_GROUP}/namespace")


def parts(survey: Survey, known: Iterable[Part]) -> tuple[Part, ...]:
    """Return the objects to exclude: the known ones, and others that are not excluded yet.

    An object that its users excluded before stays excluded.
    """
    found = {each.ref: each for each in known}
    for obj in survey.parts:
        if dig(obj, "metadata", "annotations", default={}).get(ANNOTATION) != _DISABLED:
            found.setdefault(ref_of(obj), _part(obj))
    return tuple(found.values())


async def exclude(api: Client, some: Iterable[Part]) -> None:
    """Annotate the objects; deleted ones are skipped."""
    for each in some:
        await _patch(api, each, {"annotations": {ANNOTATION: _DISABLED}})


async def include(api: Client, some: Iterable[Part]) -> None:
    """Remove the annotation, and restore the labels of the objects.

    Penstock has changed those of CRDs, and ``release`` removes the labels of the applier.
    """
    for each in some:
        labels: Json = {name: each.labels[name] for name in _OWNER if name in each.labels}
        if each.kind == injection.DEFINITION.kind:
            labels |= {name: each.labels.get(name) for name in _LABELS}
        await _patch(api, each, {"annotations": {ANNOTATION: None}, "labels": labels})


def appliers(some: Iterable[Part]) -> tuple[ObjectKey, ...]:
    """Return the Kustomizations that applied the objects before they were excluded."""
    owners = (ownership.owner_of({"metadata": {"labels": each.labels}}) for each in some)
    return tuple(dict.fromkeys(owner for owner in owners if owner is not None))


async def release(api: Client, some: Iterable[Part]) -> None:
    """Remove the labels of the Kustomization that applies the objects, so that it prunes none."""
    for each in some:
        await _patch(api, each, {"labels": dict.fromkeys(_OWNER)})


async def free(api: Client, some: Iterable[Part]) -> None:
    """Take the annotation away from objects that are released."""
    for each in some:
        await _patch(api, each, {"annotations": {ANNOTATION: None}})


async def _patch(api: Client, part: Part, metadata: Json) -> None:
    ref = part.ref
    with suppress(NotFoundError):
        await api.patch(
            *(ref.gvk, ref.name, ref.namespace, {"metadata": metadata}),
            strategy="merge",
            manager=MANAGER,
        )


def _part(obj: Json) -> Part:
    ref = ref_of(obj)
    labels = dig(obj, "metadata", "labels", default={})
    kept = {name: labels[name] for name in (*_LABELS, *_OWNER) if name in labels}
    return Part(ref.gvk.api_version, ref.gvk.kind, ref.namespace, ref.name, kept)
