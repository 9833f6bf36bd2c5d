"""A write, as policies of provenance see it. Pure values."""

from dataclasses import dataclass, field
from typing import Literal

from toolkit.objects import Json, ObjectRef, dig

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A write that a user attempts.

    ``group`` is the group of the resource; None if only the kind of a subresource is known, such as
    ``Scale``. ``ref`` names the object in messages. The deletion of a collection is one attempt per
    object.
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
