"""Objects of the cluster or of files, decoded as the controllers do."""

from typing import TypeVar

import msgspec

from cli import errors
from crds import misfits
from crds.kind import Kind
from toolkit.objects import Json, key_of

T = TypeVar("T", bound=msgspec.Struct)


def decode(kind: Kind[T], obj: Json) -> T:
    """Return an object of a kind.

    Raises:
        UsageError: it does not have the shape of its API version.
    """
    try:
        return msgspec.convert(obj, kind.model)
    except msgspec.ValidationError as exc:
        told = misfits.told(exc, obj, kind.model)
        raise errors.UsageError(f"{kind.kind} {key_of(obj)} is malformed: {told}") from exc
