"""Errors as API servers answer them: a ``Status`` with code, reason, message and details.

Clients go by the reason, people read the message; both are upstream's, word for word where upstream
has one (``apimachinery/pkg/api/errors``), because tools look for these words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from toolkit.objects import Json

GROUP: Final = "gitops.penstock.dev"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One thing that is wrong; ``field`` is a path such as ``spec.x`` or a parameter's name."""

    reason: str
    message: str
    field: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Which object it is about; ``kind`` is the resource's plural name where it is about one."""

    name: str = ""
    group: str = ""
    kind: str = ""
    causes: Sequence[Cause] = ()
    retry_after: int = 0
    """Seconds; it also becomes the ``Retry-After`` header."""


@dataclass(slots=True)
class StatusError(Exception):
    """An error answer."""

    code: int
    reason: str
    message: str
    details: Details = field(default_factory=Details)
    next_page: str = ""
    """A token to go on with, at the price of consistency (``metadata.continue``)."""

    def __str__(self) -> str:
        return self.message

    def document(self) -> Json:
        """Return the ``Status`` object (meta/v1)."""
        shown = self.details
        parts: Json = {
            "name": shown.name,
            "group": shown.group,
            "kind": shown.kind,
            "causes": [
                {"reason": each.reason, "message": each.message}
                | ({"field": each.field} if each.field else {})
                for each in shown.causes
            ],
            "retryAfterSeconds": shown.retry_after,
        }
        details = {name: value for name, value in parts.items() if value}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.next_page} if self.next_page else {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            **({"details": details} if details else {}),
            "code": self.code,
        }


def not_found(resource: str, name: str) -> StatusError:
    """Say that there is no such object, or no such part of it."""
    return StatusError(
        404,
        "NotFound",
        f'{resource}.{GROUP} "{name}" not found',
        Details(name=name, group=GROUP, kind=resource),
    )


def bad_request(message: str) -> StatusError:
    """Say that the request cannot be understood."""
    return StatusError(400, "BadRequest", message)


def unavailable(message: str) -> StatusError:
    """Return the error that something is unavailable.

    It has no ``retryAfter``: clients would wait for it ten times before they showed the message.
    """
    return StatusError(503, "ServiceUnavailable", message)


def not_yet(message: str) -> StatusError:
    """Say what will be there in a moment; clients ask again by themselves."""
    return StatusError(503, "ServiceUnavailable", message, Details(retry_after=1))


def behind(resource: str, kinds: Sequence[str]) -> StatusError:
    """Return the error that the data of a resource are outdated; the log has the reasons."""
    told = ", ".join(sorted(set(kinds)))
    return unavailable(
        f"{resource}: no changes of {told} have been heard of for a while: what is known may be"
        " out of date"
    )


def expired(message: str) -> StatusError:
    """Return the error that a resource version or a ``continue`` token is too old."""
    return StatusError(410, "Expired", message)


def not_acceptable(*accepted: str) -> StatusError:
    """Say that nothing that the client accepts can be made."""
    return StatusError(
        406,
        "NotAcceptable",
        f"only the following media types are accepted: {', '.join(accepted)}",
    )


def method_not_allowed(verb: str, resource: str) -> StatusError:
    """Say that the resource does not have the verb."""
    return StatusError(
        405,
        "MethodNotAllowed",
        f'{verb} is not supported on resources of kind "{resource}.{GROUP}"',
        Details(group=GROUP, kind=resource),
    )
