"""One CEL rule of a struct: what must hold between fields, and what to tell the user."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Rule:
    """An entry of ``x-kubernetes-validations``, evaluated with ``self`` as the struct.

    ``field`` is the path that the API server names in its message, relative to the struct, as
    ``.serviceAccountName``; empty means the struct itself.
    """

    expression: str
    message: str
    field: str = ""
    reason: Literal["FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden"] = (
        "FieldValueInvalid"
    )
