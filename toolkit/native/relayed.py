"""An error that a worker raised, as its parent raises it again.

Errors are rebuilt only from classes that the parent has already imported: a name that came over
the pipe never loads code.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from toolkit import untrusted
from toolkit.errors import PenstockError
from toolkit.native import frames
from toolkit.native.frames import OperationError


def decode_error(body: bytes) -> PenstockError:
    """Rebuild an error of a worker as the nearest class that this process knows.

    An error that a worker cannot raise becomes an ``OperationError``, because the worker may be
    compromised.
    """
    try:
        told = untrusted.load_json(body, _Told, size=len(body))
    except untrusted.UntrustedError as exc:
        return OperationError("the worker's answer cannot be read", trace=str(exc))
    known = {frames.name_of(cls): cls for cls in _descendants(PenstockError)}
    cls = next((known[name] for name in told.classes if name in known), OperationError)
    # Constructors of subclasses differ, their attributes do not need them.
    error = cls.__new__(cls, told.message)
    PenstockError.__init__(error, told.message)
    error.__dict__.update(
        {name: value for name, value in told.attributes.items() if not hasattr(Exception, name)}
    )
    reason = told.attributes.get("reason")
    if not isinstance(reason, str) or not _REASON.fullmatch(reason):
        error.reason = cls.default_reason
    return error


class _Told(msgspec.Struct):
    """An error as ``encode_error`` writes it."""

    classes: list[str]
    message: str
    attributes: dict[str, str | int | float | bool | None]


_REASON: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,127}")


def _descendants(cls: type[PenstockError]) -> Iterator[type[PenstockError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _descendants(child)
