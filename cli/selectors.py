"""Selectors of objects: ``--status-selector ready=false``, ``Kind/name``, ``--for``."""

from dataclasses import dataclass

from cli import errors, status
from toolkit.objects import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSelector:
    """A condition type and the status that it must have, both compared without case."""

    type: str
    status: str

    @classmethod
    def parse(cls, text: str) -> "StatusSelector":
        """Parse ``ready=false``.

        Raises:
            UsageError: there is no ``=``, or one side is empty.
        """
        kind, equals, wanted = text.partition("=")
        if not (equals and kind.strip() and wanted.strip()):
            raise errors.UsageError(
                f"status selector {text!r} must be a condition type and its status, "
                "such as ready=false"
            )
        return cls(type=kind.strip().lower(), status=wanted.strip().lower())

    def matches(self, obj: Json) -> bool:
        """Tell whether the object has that condition; without a Ready condition it is False."""
        if self.type == "ready":
            return status.readiness(obj).status.lower() == self.status
        conditions = (obj.get("status") or {}).get("conditions") or ()
        return any(
            str(row.get("type")).lower() == self.type
            and str(row.get("status")).lower() == self.status
            for row in conditions
        )


def several(words: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Take ``KIND NAME...``, or one or more ``KIND/NAME``, apart.

    Raises:
        UsageError: it is neither.
    """
    if len(words) > 1 and all("/" in word for word in words):
        return tuple(kind_and_name((word,)) for word in words)
    if len(words) > 1:
        return tuple(kind_and_name((words[0], word)) for word in words[1:])
    return (kind_and_name(words),)


def kind_and_name(words: tuple[str, ...]) -> tuple[str, str]:
    """Take ``KIND/NAME`` or ``KIND NAME`` apart.

    Raises:
        UsageError: it is neither.
    """
    parts = words[0].split("/") if len(words) == 1 else list(words)
    if len(parts) != 2 or not all(parts) or any("/" in part for part in parts):
        raise errors.UsageError(
            f"{' '.join(words)!r} names no object; write KIND/NAME or KIND NAME, "
            "such as deployment/web"
        )
    return parts[0], parts[1]
