"""One write as policies of provenance look at it. Pure values."""

from dataclasses import dataclass, field
from typing import Literal

from toolkit.objects import Json, ObjectRef, dig

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Somebody's attempt to write.

    ``group`` is that of the resource, None where only the kind of a subresource is known, such as
    ``Scale``. ``ref`` names the object in words; a collection's deletion is one attempt an object.
    """

    operation: Operation
    group: str | None
    resource: str
    subresource: str = ""
    ref: ObjectRef
    user: str
    groups: tuple[str, ...] = ()
    object: Json | None = field(default=None, repr=False)
    old: Json | None = field(default=None, repr=False)


def controller_of(obj: Json | None) -> Json | None:
    """Return the owner reference to the controller of an object, if it has one."""
    references = dig(obj or {}, "metadata", "ownerReferences", default=[])
    found = (each for each in references if isinstance(each, dict) and each.get("controller"))
    return next(found, None)
