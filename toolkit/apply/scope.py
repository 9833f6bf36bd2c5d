"""Resolve the namespace of each object of a set, as the server will store it.

The namespace of a cluster-scoped object is dropped, because kustomize sets one on kinds that it
does not know. A missing namespace is an error, and so is the same object twice: the inventory must
have the identity of the stored object. The scope of a kind that is not served yet comes from its
CRD in the set.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from toolkit.apply import order
from toolkit.apply.changes import Failure
from toolkit.apply.order import GroupKind
from toolkit.kube import client, errors, mapper
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig, gvk_of, key_of, ref_of


async def resolve(
    api: client.Client, objects: Sequence[Json]
) -> tuple[tuple[Json, ...], list[Failure]]:
    """Return the objects with their namespaces, and failures for invalid names."""
    defined = _defined_scopes(objects)
    kinds = {gvk_of(obj) for obj in objects}
    namespaced = {gvk: await _namespaced(api, gvk, defined) for gvk in kinds}
    scoped = tuple(_scoped(obj, namespaced[gvk_of(obj)]) for obj in objects)
    failures = [
        Failure(ref=ref_of(obj), step="validation", reason="Invalid", message=problem)
        for obj in scoped
        if (problem := _problem(obj, namespaced[gvk_of(obj)]))
    ]
    repeated = Counter(ref_of(obj).identity for obj in scoped)
    failures += [
        Failure(ref=ref, step="validation", reason="Invalid", message="it is defined twice")
        for ref in {ref_of(obj).identity: ref_of(obj) for obj in scoped}.values()
        if repeated[ref.identity] > 1
    ]
    return scoped, failures


async def served(api: client.Client, ref: ObjectRef) -> ObjectRef | None:
    """Return the object in a version that is served, None when the kind is served in none.

    An inventory may name a version that has been removed while its objects live on.

    Raises:
        ApiError: discovery cannot be read.
    """
    try:
        await api.mapper.resource(ref.gvk)
    except errors.NoMatchError:
        return await _in_another_version(api, ref)
    return ref


async def _in_another_version(api: client.Client, ref: ObjectRef) -> ObjectRef | None:
    try:
        path = f"/apis/{mapper.segment(ref.gvk.group)}"
        group = await api.request("GET", path) if ref.gvk.group else {}
    except errors.NotFoundError:
        return None
    for version in group.get("versions") or ():
        other = GroupVersionKind(ref.gvk.group, str(version.get("version")), ref.gvk.kind)
        try:
            await api.mapper.resource(other)
        except errors.NoMatchError:
            continue
        return ObjectRef(other, ref.namespace, ref.name)
    return None


async def _namespaced(
    api: client.Client, gvk: GroupVersionKind, defined: Mapping[GroupKind, bool]
) -> bool | None:
    try:
        return (await api.mapper.resource(gvk)).namespaced
    except errors.NoMatchError:
        return defined.get(gvk.group_kind)


def _defined_scopes(objects: Iterable[Json]) -> dict[GroupKind, bool]:
    return {
        kind: dig(obj, "spec", "scope") == "Namespaced"
        for obj in objects
        if (kind := order.defined_kind(obj))
    }


def _scoped(obj: Json, namespaced: bool | None) -> Json:  # noqa: FBT001 - private
    if namespaced is not False or not key_of(obj).namespace:
        return obj
    metadata = {key: value for key, value in obj["metadata"].items() if key != "namespace"}
    return {**obj, "metadata": metadata}


def _problem(obj: Json, namespaced: bool | None) -> str:  # noqa: FBT001 - private
    gvk, key = gvk_of(obj), key_of(obj)
    if not (gvk.version and gvk.kind):
        return "it has no apiVersion or no kind"
    if not key.name:
        return "it has no name"
    if namespaced and not key.namespace:
        return (
            "namespace not specified: set metadata.namespace, or spec.targetNamespace of the "
            "Kustomization"
        )
    return ""
