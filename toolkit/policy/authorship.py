"""Who wrote an object that uses the credentials of another object, and what it takes. Pure.

An ImageUpdateAutomation pushes with the credentials of the GitRepository that it names. These are
checked when the automation is written, but the GitRepository may get other ones at any time. So
admission records who has written the spec, under ``AUTHOR``, and the controller asks what that user
may use before it pushes (``required``). The record holds facts of the request alone.

A write of anything else keeps the record. A user who sets the annotation to something else becomes
the author, which is how somebody else takes an automation over. An object without the record was
written where admission does not run, or before an upgrade, and is not checked again.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from toolkit.kube.reviews import User
from toolkit.objects import Json, dig
from toolkit.policy import tenancy

AUTHOR: Final = "policy.penstock.dev/author"
"""Annotation of an ImageUpdateAutomation: JSON with the name and groups of a user."""
_MOST_BYTES: Final = 32 << 10
_MOST_GROUPS: Final = 500


class _Author(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    user: str
    groups: list[str] = []


def recorded(obj: Json) -> User | None:
    """Return the author of an object; None if there is no record.

    A malformed record names a user without any right.
    """
    text = _noted(obj)
    if not text:
        return None
    try:
        found = msgspec.json.decode(text[:_MOST_BYTES], type=_Author)
    except (msgspec.MsgspecError, RecursionError):
        return User(name="")
    return User(name=found.user, groups=tuple(found.groups))


def attributed(obj: Json, old: Json | None, user: User) -> Json:
    """Return the object with the record of its author; the object itself is not changed.

    Of a user in very many groups, only the first ones are recorded, which are fewer rights.
    """
    before, now = _noted(old or {}), _noted(obj)
    if not tenancy.lends(obj, old) and now in {"", before}:
        wanted = before
    else:
        author = _Author(user=user.name, groups=_few(user.groups))
        wanted = msgspec.json.encode(author).decode()
    if wanted == now:
        return obj
    metadata = dict(obj.get("metadata") or {})
    others = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != AUTHOR}
    metadata["annotations"] = others | ({AUTHOR: wanted} if wanted else {})
    return {**obj, "metadata": metadata}


def _few(groups: Sequence[str]) -> list[str]:
    kept, size = list[str](), 0
    for group in groups[:_MOST_GROUPS]:
        size += len(msgspec.json.encode(group)) + 1
        if size > _MOST_BYTES // 2:
            break
        kept.append(group)
    return kept


def _noted(obj: Json) -> str:
    return str(dig(obj, "metadata", "annotations", AUTHOR, default="") or "")
