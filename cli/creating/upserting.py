"""Create an object, or replace the labels and the contents of an existing one.

As in ``flux create``: an update is a PUT of the object that was read, so that a concurrent change
causes a conflict.
"""

from typing import Final

from cli import errors, session
from toolkit.kube import errors as kube_errors
from toolkit.objects import Json, gvk_of, key_of

_CONTENTS: Final = ("spec", "stringData", "type", "roleRef", "subjects")


async def upsert(opened: session.Session, obj: Json) -> bool:
    """Write the object; tell whether it is new.

    Raises:
        UsageError: its namespace does not exist.
    """
    key, gvk = key_of(obj), gvk_of(obj)
    try:
        live = await opened.api.get(gvk, key.name, key.namespace)
    except kube_errors.NotFoundError:
        await _create(opened, obj)
        return True
    if live.get("roleRef") != obj.get("roleRef"):
        # The role of a binding cannot be changed (`kubectl auth reconcile` does the same).
        await opened.api.delete(gvk, key.name, key.namespace, uid=live["metadata"]["uid"])
        await _create(opened, obj)
        return False
    contents: Json = {name: obj[name] for name in _CONTENTS if name in obj}
    if "stringData" in contents:
        # A PUT without `data` would keep the old entries.
        contents["data"] = {}
    metadata = {**live["metadata"], "labels": _labels(live, obj)}
    if given := obj["metadata"].get("annotations"):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **given}
    path = (await opened.api.mapper.resource(gvk)).path(key.name, key.namespace)
    await opened.api.request("PUT", path, body={**live, **contents, "metadata": metadata})
    return False


def _labels(live: Json, obj: Json) -> Json:
    """Return the labels as given; a namespace keeps those of others, as its own name's."""
    given: Json = obj["metadata"].get("labels") or {}
    return (
        {**(live["metadata"].get("labels") or {}), **given} if obj["kind"] == "Namespace" else given
    )


async def _create(opened: session.Session, obj: Json) -> None:
    try:
        await opened.api.create(obj)
    except kube_errors.NotFoundError as exc:
        raise errors.UsageError(
            f'cannot create {obj["kind"]} {key_of(obj)}: namespace "{key_of(obj).namespace}" does '
            "not exist; create it, or choose another one with --namespace"
        ) from exc
