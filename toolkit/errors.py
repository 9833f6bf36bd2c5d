"""The error tree: what failed, which condition reason it becomes, and whether to try again.

::

    PenstockError
    ├── StalledError            nothing changes until the spec or a referenced object does
    │   └── AccessDeniedError   a policy or RBAC forbids it
    ├── WaitingError            something else must happen first; look again after a fixed delay
    └── TransientError          expected to pass; retried with exponential back-off

A reconciler raises one of these; ``toolkit.kube.controller`` alone turns it into conditions, an
event, a metric and a requeue. Libraries' exceptions are translated where the library is called.
"""

from dataclasses import dataclass
from typing import ClassVar, Self


class PenstockError(Exception):
    """Base class of all errors that a user may see.

    The message is lower case, says what failed on which object, and never contains a secret. Bytes
    of a file name that are not text are escaped, because JSON cannot contain them. ``reason`` is
    the CamelCase reason of the Ready condition (``meta/v1.Condition``).
    """

    default_reason: ClassVar[str] = "Failed"

    def __init__(
        self, message: str, *, reason: str | None = None, told: "Told | None" = None
    ) -> None:
        super().__init__(message.encode(errors="backslashreplace").decode())
        self.reason = reason or self.default_reason
        self.told = told or Told()

    def within(self, context: str, *, reason: str | None = None) -> Self:
        """Return this error with ``context`` before its message, and with ``reason`` if given.

        Users' filters match the beginnings of Flux's messages, so Penstock's own text comes after
        it.
        """
        return self.retold(f"{context}: {self}", reason=reason)

    def retold(self, message: str, *, reason: str | None = None) -> Self:
        """Return this error with another message, and with ``reason`` if given."""
        told = type(self).__new__(type(self), message)  # Subclasses have different parameters.
        told.__dict__.update(self.__dict__)
        told.reason = reason or self.reason
        return told

    def advising(self, remedy: str) -> Self:
        """Return this error with ``remedy`` after its message; without one, the same error."""
        return self.retold(f"{self}: {remedy}") if remedy else self


class StalledError(PenstockError):
    """Retrying cannot help: the Stalled condition is set and no retry is scheduled."""


class AccessDeniedError(StalledError):
    """A policy, a missing grant or RBAC forbids an action that the object needs."""

    default_reason = "AccessDenied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Options for reporting an error.

    - ``event`` is the text of the event; with ``""`` there is no event, with None it is the
      message.
    - ``ready`` are reason and message of Ready, if they differ from those of Reconciling or
      Stalled.
    - ``delay`` (of a WaitingError): message and event end with the time of the next attempt.
    - ``trace`` (of a WaitingError): the event is not sent to the notification service.
    - ``unwritten`` (of a WaitingError): the wait ends in a moment, so the status is not written.
    """

    delay: bool = False
    event: str | None = None
    trace: bool = False
    unwritten: bool = False
    ready: tuple[str, str] | None = None


class WaitingError(PenstockError):
    """A precondition is not met yet.

    ``retry_after`` is in seconds; ``None`` means the controller's ``--requeue-dependency``.
    """

    default_reason = "DependencyNotReady"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        retry_after: float | None = None,
        told: Told | None = None,
    ) -> None:
        super().__init__(message, reason=reason, told=told)
        self.retry_after = retry_after


class TransientError(PenstockError):
    """A network, server or storage failure that a later attempt may not meet."""
