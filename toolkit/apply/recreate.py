"""Delete an object in order to create it again, if it cannot be changed in place.

Only for an immutable-field error on the object itself, and only if the server would accept the
manifest as a new object: a dry-run of its creation must fail with nothing but "already exists".
A conflict, a webhook's refusal or an invalid manifest never deletes anything. Objects whose
deletion destroys other data (Namespaces, CRDs, volumes and claims) are recreated only if the object
itself says ``force: enabled``.

The old object is deleted by background propagation, as Flux does it; the new one is created when
the old one is gone.
"""

import asyncio
import re
from collections.abc import Iterable
from typing import Final

from toolkit.apply import ownership
from toolkit.apply.ownership import Owner
from toolkit.kube import client, errors
from toolkit.objects import Json, dig, gvk_of, ref_of

_PRECIOUS: Final = frozenset(
    {
        ("", "Namespace"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
    }
)
_IMMUTABLE: Final = re.compile(
    r"immutable|(?:can ?not|may not) (?:be )?changed?\b|may not change once set"
    r"|can ?not be unset|updates to .* are forbidden",
)
_MOST: Final = 1000
"""Characters of a message that are read: the refused value of any length, and then the reason."""
_FIRST_PAUSE: Final = 0.05
_MAX_PAUSE: Final = 2.0


def immutable(error: errors.ApiError) -> bool:
    """Tell whether the server refused the change, and only the change, of fields."""
    return isinstance(error, errors.InvalidError) and _all_immutable(error.causes)


def permit(obj: Json, owner: Owner) -> None:
    """Refuse to recreate an object that contains other data, unless the object itself allows it.

    Raises:
        InvalidError: the object is of such a kind, or the owner keeps it.
    """
    if owner.retains(ref_of(obj)):
        raise errors.InvalidError(
            f"a field is immutable, and Namespace {ref_of(obj).name} is never deleted, because"
            " appliers live in it: change the field back",
            api_reason="Invalid",
        )
    precious = gvk_of(obj).group_kind in _PRECIOUS
    if precious and not ownership.marked(obj, owner, "force", "enabled"):
        raise errors.InvalidError(
            f"a field is immutable, and a {gvk_of(obj).kind} is recreated only if it carries"
            f" {owner.group}/force: enabled itself",
            api_reason="Invalid",
        )


async def rehearse(api: client.Client, obj: Json) -> None:
    """Send a dry-run that creates the manifest as a new object.

    Raises:
        ApiError: the server would refuse the creation.
    """
    path = (await api.mapper.resource(gvk_of(obj))).path(namespace=ref_of(obj).namespace)
    try:
        await api.request("POST", path, query={"dryRun": "All"}, body=obj)
    except errors.AlreadyExistsError:
        return


async def remove(api: client.Client, live: Json, *, timeout: float) -> None:  # noqa: ASYNC109
    """Delete this very object and wait until it is gone.

    Raises:
        ApiError: it cannot be deleted, or is still there after ``timeout`` seconds.
    """
    ref = ref_of(live)
    uid = str(dig(live, "metadata", "uid", default=""))
    try:
        async with asyncio.timeout(timeout):
            await api.delete(ref.gvk, ref.name, ref.namespace, uid=uid)
            pause = _FIRST_PAUSE
            while dig(await api.get(ref.gvk, ref.name, ref.namespace), "metadata", "uid") == uid:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)
    except errors.NotFoundError:
        return
    except TimeoutError as exc:
        raise errors.ConflictError(
            f"still being deleted after {timeout:.0f}s", api_reason="Timeout"
        ) from exc


def _all_immutable(causes: Iterable[errors.Cause]) -> bool:
    # The reason alone is not enough: FieldValueForbidden is also used for combinations of fields.
    found = [_IMMUTABLE.search(cause.message[-_MOST:]) is not None for cause in causes]
    return bool(found) and all(found)
