"""Report why the server refused an object, without the content of Secrets.

Validation messages quote the refused value. For a Secret, a message only contains parts that cannot
have a value: the field, the kind of error, and phrases that Kubernetes uses for any value.
"""

import base64
import re
from collections.abc import Iterator
from typing import Final

from toolkit.apply import ownership
from toolkit.apply.changes import Failure
from toolkit.kube import errors
from toolkit.objects import Json, dig, ref_of

MASK: Final = "***"
_VALUELESS_STATUS: Final = frozenset({0, 401, 403, 404, 409, 410, 429, 503, 504})
_VALUELESS_CAUSES: Final = frozenset({"FieldValueForbidden", "FieldValueRequired"})
_PHRASES: Final = ("field is immutable",)
_WORD: Final = 6
"""Shorter values are looked for as whole words, lest every letter of the message be hidden."""


_BEGINNINGS: Final = range(1, _WORD + 1)
_LARGEST: Final = 3 << 20
"""Characters of the values. The server takes Secrets of 1 MiB, which are longer in base64."""
_WITHHELD: Final = (
    "the server cannot read the Secret (its message is withheld, because it may contain values)"
)


def failure(obj: Json, error: errors.ApiError, *, step: str = "dry-run") -> Failure:
    """Return the failure to report for an object that the server refused."""
    secret = ownership.is_secret(obj)
    return Failure(
        ref=ref_of(obj),
        step=step,
        reason=error.api_reason,
        message=_secretive(obj, error) if secret else str(error),
    )


def mask_pair(before: Json, after: Json) -> tuple[Json, Json]:
    """Return two versions of a Secret without values, of which one still sees which differ."""
    return _masked(before, after, "before"), _masked(after, before, "after")


def _masked(secret: Json, other: Json, which: str) -> Json:
    masked = dict(secret)
    for part in ("data", "stringData"):
        values, others = secret.get(part), other.get(part) or {}
        if isinstance(values, dict):
            masked[part] = {
                key: MASK if others.get(key) == value else f"{MASK} ({which})"
                for key, value in values.items()
            }
    notes = dig(secret, "metadata", "annotations", default={})
    if ownership.LAST_APPLIED in notes:
        hidden = {**notes, ownership.LAST_APPLIED: MASK}
        masked["metadata"] = {**secret["metadata"], "annotations": hidden}
    return masked


def _secretive(obj: Json, error: errors.ApiError) -> str:
    if error.causes:
        return "; ".join(f"{cause.field}: {_cause(cause)}" for cause in error.causes)
    if error.status in _VALUELESS_STATUS:
        return _without_values(obj, str(error))
    return _WITHHELD


def _cause(cause: errors.Cause) -> str:
    if cause.reason in _VALUELESS_CAUSES:
        return cause.message
    phrase = next((p for p in _PHRASES if cause.message.endswith(p)), "")
    return f"{cause.reason}: {phrase}" if phrase else cause.reason


def _without_values(obj: Json, message: str) -> str:
    """Mask the values that a message contains: webhooks may answer with any text, even with a 403.

    A Secret may have a value in each of half a million lines. Most are excluded by how they begin.
    """
    if _size(obj) > _LARGEST:
        return _WITHHELD
    begins = {message[at : at + size] for at in range(len(message)) for size in _BEGINNINGS}
    present = {value for value in _values(obj) if value[:_WORD] in begins and value in message}
    for value in sorted(present, key=len, reverse=True):
        pattern = re.escape(value)
        whole = pattern if len(value) >= _WORD else rf"(?<!\w){pattern}(?!\w)"
        message = re.sub(whole, MASK, message)
    return message


def _size(secret: Json) -> int:
    parts = [secret.get(part) for part in ("data", "stringData")]
    values = [value for part in parts if isinstance(part, dict) for value in part.values()]
    return sum(len(value) for value in values if isinstance(value, str))


def _values(secret: Json) -> Iterator[str]:
    for part in ("data", "stringData"):
        values = secret.get(part)
        for value in values.values() if isinstance(values, dict) else ():
            if isinstance(value, str) and value:
                yield value
                yield from _decoded(value)


def _decoded(value: str) -> Iterator[str]:
    try:
        text = base64.b64decode("".join(value.split()), validate=True).decode()
    except ValueError:
        return
    if text.strip():
        yield text
        yield from (line for line in text.splitlines() if line.strip())
