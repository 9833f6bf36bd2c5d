"""The body of a request to reconcile, read as kube-apiserver reads a body.

A field of the wrong type is refused. An unknown or duplicate field is refused with
``fieldValidation=Strict``, causes a warning by default, and is ignored with ``Ignore``
(``apiserver/pkg/endpoints/handlers/fieldmanager``, KEP-2885). An empty body has no options, and a
null is an absent field.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from apiserver import status
from apiserver.inventories.inventory import API_VERSION
from apiserver.status import StatusError
from crds import misfits

KIND: Final = "InventoryReconcile"
_WARN, _IGNORE, _STRICT = "Warn", "Ignore", "Strict"
_LEVELS: Final = (_IGNORE, _STRICT, _WARN)


class Wishes(msgspec.Struct, rename="camel"):
    """The valid fields of a request."""

    with_source: bool = False
    force: bool = False
    reset: bool = False


class _Body(Wishes, rename="camel"):
    """All fields that the body may have; the other ones are set in the answer."""

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: dict[str, Any] = {}
    requested_at: str = ""
    applier_ref: dict[str, Any] = {}


_KNOWN: Final = frozenset(field.encode_name for field in msgspec.structs.fields(_Body))


def read(body: bytes, validation: str) -> tuple[Wishes, Sequence[str]]:
    """Return the requested actions, and the values of the ``Warning`` headers.

    Raises:
        StatusError: 400, the body is not such an object; 422, ``fieldValidation`` is not valid.
    """
    level = validation or _WARN
    if level not in _LEVELS:
        raise StatusError(
            422,
            "Invalid",
            'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value:'
            f' "{validation[:64]}": supported values: "Ignore", "Strict", "Warn"',
        )
    if not body.strip():
        return Wishes(), ()
    found, problems = _fields(body)
    if problems and level == _STRICT:
        raise status.bad_request(f"strict decoding error: {', '.join(problems)}")
    warnings = [f"299 - {json.dumps(text)}" for text in problems if level == _WARN]
    wanted = Wishes(with_source=found.with_source, force=found.force, reset=found.reset)
    return wanted, warnings


def _fields(body: bytes) -> tuple[_Body, Sequence[str]]:
    """Return the known fields of the body, and the problems of others."""
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        counts = Counter(name for name, _ in pairs)
        twice.extend(sorted(name for name, count in counts.items() if count > 1))
        return dict(pairs)

    try:
        # This decoder refuses NaN, and the other one finds duplicate keys.
        msgspec.json.decode(body, type=dict[str, Any])
        given = json.loads(body, object_pairs_hook=unique)  # noqa: TID251 - msgspec has no hook
        known = {name: value for name, value in given.items() if name in _KNOWN}
        present = {name: value for name, value in known.items() if value is not None}
        found = msgspec.convert(present, _Body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise status.bad_request(f"the body is no {KIND} in JSON: {_told(exc)}") from exc
    if (found.api_version, found.kind) != (API_VERSION, KIND):
        raise status.bad_request(f"the body is no {KIND} of {API_VERSION}: see its kind")
    unknown = [f"unknown field {json.dumps(name[:64])}" for name in given if name not in _KNOWN]
    return found, [*unknown, *(f"duplicate field {json.dumps(name[:64])}" for name in twice)]


def _told(exc: Exception) -> str:
    """Return the message of a validator, which names fields and types; others quote the body."""
    told = isinstance(exc, msgspec.ValidationError)
    return misfits.told(exc) if told else "it cannot be decoded"
