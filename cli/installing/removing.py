"""Remove an installation, and leave what it applied.

First everything is read (``survey``), and the removal is refused if it would lose something:

- an object that is being deleted, while its controller still deletes what it applied: without the
  controller these workloads would be orphaned;
- with the namespace, everything else in it, except what ``penstock bootstrap`` has made there.

Then the controllers are deleted, before all else, because they would add their finalizers again.
The registrations of the gate follow, because it no longer answers. Custom resources stay without
finalizers, so that they can be deleted later, and so do the definitions.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from certs import injection
from cli import errors, progress, session, watching
from cli.installing import following, leaving, manifests, writing
from cli.installing.cluster import DEPLOYMENT, NAMESPACE, listed, namespaced_kinds
from cli.stack import install
from crds import KINDS
from toolkit.apply import order
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig, ref_of
from webhooks import definitions

ALLOWED: Final = "policy.penstock.dev/allow-deletion"
"""Annotation of a namespace that holds Penstock or its sources, and may be deleted."""
_AT_RUN_TIME: Final = (injection.VALIDATING, injection.MUTATING, injection.API_SERVICE)
"""Kinds that the processes themselves write; the API server asks us because of them."""
_PASSING: Final = frozenset({"Endpoints", "EndpointSlice", "Event", "Lease", "PodMetrics"})
"""Kinds of objects that processes create and remove themselves."""
_EVERYWHERE: Final = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")})
_INSTANCE: Final = tuple(manifests.INSTANCE.split("="))
_NAMED: Final = 10
"""Objects that a refusal names."""
_PARALLEL: Final = 8
_KINDS: Final = frozenset(kind.crd_name for kind in KINDS)
_OURS: Final = frozenset(kind.finalizer for kind in KINDS)
_GROUPS: Final = frozenset(kind.gvk[0] for kind in KINDS)
_SHARED: Final = ObjectRef(NAMESPACE, "", install.SHARED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The options: what to delete besides the processes."""

    keep_namespace: bool
    custom_resources: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The existing objects: of the installation, of users, and those that prevent the removal.

    ``held`` have finalizers of Penstock, ``terminating`` are those of them that are being deleted,
    ``others`` would be deleted with the namespace. ``emptied`` are namespaces that were created to
    share sources and would be empty.
    """

    installed: tuple[ObjectRef, ...]
    asking: tuple[ObjectRef, ...]
    definitions: tuple[ObjectRef, ...]
    held: tuple[Json, ...]
    terminating: tuple[ObjectRef, ...]
    others: tuple[ObjectRef, ...]
    emptied: tuple[ObjectRef, ...] = ()

    def is_empty(self, wish: Wish) -> bool:
        """Tell whether there is nothing to remove."""
        return not (self.installed or self.asking or (wish.custom_resources and self.definitions))


async def survey(opened: session.Session, wish: Wish) -> Survey:
    """Read the existing objects.

    Raises:
        ApiError: they cannot be read.
    """
    api, namespace = opened.api, opened.namespace
    installed = [
        found
        for kind in await manifests.kinds()
        for found in await listed(api, kind, label_selector=manifests.INSTANCE)
    ]
    asking = [
        found
        for kind in _AT_RUN_TIME
        for found in await listed(api, kind, label_selector=manifests.INSTANCE)
    ]
    crds = await listed(api, injection.DEFINITION, label_selector=manifests.INSTANCE)
    resources = await _resources(api)
    held = [found for found in resources if _is_held(found)]
    custom = [found for found in resources if not _of_installation(found)]
    return Survey(
        installed=_refs(installed),
        asking=_refs(asking),
        definitions=_refs(crds),
        held=tuple(held),
        terminating=_refs(found for found in held if _terminates(found)),
        others=()
        if wish.keep_namespace
        else await _others(api, namespace, wish, custom, installed=installed),
        emptied=await _emptied(api, namespace, wish, custom),
    )


async def _emptied(
    api: Client, namespace: str, wish: Wish, custom: Sequence[Json]
) -> tuple[ObjectRef, ...]:
    """Return the namespace that an installation created to share its sources, if it is unused.

    If custom resources stay, its grant stays.
    """
    if not wish.custom_resources or namespace == _SHARED.name:
        return ()
    try:
        found = await api.get(NAMESPACE, _SHARED.name)
    except NotFoundError:
        return ()
    if not writing.is_ours(found) or await _others(api, _SHARED.name, wish, custom):
        return ()
    return (_SHARED,)


async def _others(
    api: Client,
    namespace: str,
    wish: Wish,
    custom: Sequence[Json],
    *,
    installed: Sequence[Json] = (),
) -> tuple[ObjectRef, ...]:
    """Return the objects of users in the namespace."""
    kinds = [kind for kind in await namespaced_kinds(api) if kind.kind not in _PASSING]
    found = [
        obj
        for kind in kinds
        if kind.group not in _GROUPS
        for obj in await listed(api, kind, namespace)
        if not (_of_installation(obj) or _of_process(obj))
        and not dig(obj, "metadata", "ownerReferences", default=())
    ]
    own = following.made(namespace, (*installed, *custom, *found))
    if not wish.custom_resources:
        found += [obj for obj in custom if dig(obj, "metadata", "namespace") == namespace]
    return tuple(
        ref
        for ref in _refs(found)
        if ref not in own and (ref.gvk.kind, ref.name) not in _EVERYWHERE
    )


def require_harmless(found: Survey, namespace: str) -> None:
    """Require that nothing would be orphaned or lost.

    Raises:
        UsageError: something would; the message names it, and what to do.
    """
    if found.terminating:
        raise errors.UsageError(
            f"{_listed(found.terminating)}: being deleted, and the controller still deletes what "
            "was applied, which would be orphaned: wait until it is gone, or use --force"
        )
    if found.others:
        raise errors.UsageError(
            f"{_listed(found.others)}: would be deleted with namespace {namespace}: move or delete "
            "it first, or use --keep-namespace, or --force"
        )


def _listed(refs: Sequence[ObjectRef]) -> str:
    more = f" and {len(refs) - _NAMED} more" if len(refs) > _NAMED else ""
    return ", ".join(f"{ref.gvk.kind} {ref.key}" for ref in refs[:_NAMED]) + more


async def remove(opened: session.Session, found: Survey, wish: Wish) -> None:
    """Delete the objects of the survey.

    Raises:
        DeadlineError: an object still exists after the timeout.
        ApiError: the API server refuses.
    """
    api = opened.api
    deployments = [ref for ref in found.installed if ref.gvk == DEPLOYMENT]
    progress.action(f"deleting {len(deployments)} Deployments and their pods")
    await _each(_delete(api, ref, propagation="Foreground") for ref in deployments)
    await _gone(opened, deployments)
    progress.action("ending what the API server asks of the gate and the aggregated API")
    await _each(_delete(api, ref) for ref in found.asking)
    await definitions.disarm(api, KINDS)
    # Read again: until now controllers have written status, and perhaps finalizers.
    held = [resource for resource in await _resources(api) if _is_held(resource)]
    progress.action(f"removing finalizers from {len(held)} custom resources")
    await _each(_released(api, obj) for obj in held)
    await _each(leaving.settle(api, obj) for obj in await _resources(api))
    rest = [ref for ref in found.installed if ref.gvk != DEPLOYMENT]
    # A CRD of an unknown kind has no objects: it exists only for the flux command.
    rest += [ref for ref in found.definitions if ref.name not in _KINDS]
    progress.action(f"deleting {len(rest)} objects of the installation")
    for run in order.deletion_ranks(rest):
        await _each(_delete(api, ref) for ref in run)
    if wish.custom_resources:
        progress.action(f"deleting {len(found.definitions)} kinds and their objects")
        await _each(_delete(api, ref) for ref in found.definitions)
        await _gone(opened, found.definitions)
    places = [] if wish.keep_namespace else [ObjectRef(NAMESPACE, "", opened.namespace)]
    for place in (*places, *found.emptied):
        progress.action(f"deleting namespace {place.name}")
        await _delete_namespace(api, place)
        await _gone(opened, [place])


async def _delete(api: Client, ref: ObjectRef, *, propagation: str = "Background") -> None:
    with contextlib.suppress(NotFoundError):
        await api.delete(ref.gvk, ref.name, ref.namespace, propagation=propagation)


async def _delete_namespace(api: Client, ref: ObjectRef) -> None:
    """Delete a namespace that the installation protects, see ``deploy/base/namespaces``.

    An API server applies a policy for some time after its deletion, so an annotation of the
    namespace allows it.
    """
    allowed = {"metadata": {"annotations": {ALLOWED: "true"}}}
    with contextlib.suppress(NotFoundError):
        await api.patch(ref.gvk, ref.name, "", allowed, strategy="merge")
        await api.delete(ref.gvk, ref.name, "")


async def _released(api: Client, obj: Json) -> None:
    """Remove our finalizers, and no others; concurrent changes do not matter."""
    ref = ref_of(obj)
    places = [place for place, name in enumerate(_finalizers(obj)) if name in _OURS]
    # RFC 6902: from the end, so that the indexes of earlier ones stay valid.
    operations = [
        operation
        for place in reversed(places)
        for path in [f"/metadata/finalizers/{place}"]
        for operation in (
            {"op": "test", "path": path, "value": _finalizers(obj)[place]},
            {"op": "remove", "path": path},
        )
    ]
    with contextlib.suppress(NotFoundError):
        await api.patch(ref.gvk, ref.name, ref.namespace, operations, strategy="json")


async def _resources(api: Client) -> list[Json]:
    return [found for kind in KINDS for found in await listed(api, GroupVersionKind(*kind.gvk))]


def _is_held(obj: Json) -> bool:
    return not _OURS.isdisjoint(_finalizers(obj))


async def _gone(opened: session.Session, refs: Iterable[ObjectRef]) -> None:
    for ref in refs:
        await watching.gone(opened, ref)


async def _each(works: Iterable[Awaitable[None]]) -> None:
    gate = asyncio.Semaphore(_PARALLEL)

    async def one(work: Awaitable[None]) -> None:
        async with gate:
            await work

    with errors.ungrouped():
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(one(work))


def _refs(objects: Iterable[Json]) -> tuple[ObjectRef, ...]:
    return tuple(map(ref_of, objects))


def _finalizers(obj: Json) -> list[str]:
    return list(dig(obj, "metadata", "finalizers", default=()))


def _terminates(obj: Json) -> bool:
    return bool(dig(obj, "metadata", "deletionTimestamp"))


def _of_installation(obj: Json) -> bool:
    label, value = _INSTANCE
    return bool(dig(obj, "metadata", "labels", default={}).get(label) == value)


def _of_process(obj: Json) -> bool:
    """Tell whether a process of Penstock created it, such as its certificate (``certs.secret``)."""
    metadata = dig(obj, "metadata", default={})
    component = dig(metadata, "labels", default={}).get("app.kubernetes.io/component")
    return bool(component == metadata.get("name"))
