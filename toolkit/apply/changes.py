"""What an apply did, what is remembered of it, and how its failures are told."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from toolkit import errors
from toolkit.apply.order import Identity
from toolkit.objects import ObjectRef

Action = Literal["created", "configured", "unchanged", "skipped", "deleted"]

_MAX_FAILURES: Final = 20
_MAX_MESSAGE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What we last applied, and as what the server keeps it.

    ``payload_digest`` is of what we sent, ``entry_digest`` of our managedFields entry after it.
    A ``vanishing`` object deletes itself when it is done.
    """

    ref: ObjectRef
    payload_digest: str
    entry_digest: str
    uid: str
    resource_version: str
    vanishing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The outcome for one object. A skipped one has empty digests, uid and version."""

    ref: ObjectRef
    action: Action
    payload_digest: str = ""
    entry_digest: str = ""
    uid: str = ""
    resource_version: str = ""
    vanishing: bool = False

    def __str__(self) -> str:
        return f"{self.ref} {self.action}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """The outcome for every object of a set, in the order of writing."""

    entries: tuple[Change, ...] = ()

    @property
    def refs(self) -> tuple[ObjectRef, ...]:
        """Return all objects: the new inventory."""
        return tuple(entry.ref for entry in self.entries)

    @property
    def changed(self) -> bool:
        """Tell whether anything was written: otherwise there is nothing to announce."""
        return any(entry.action in ("created", "configured", "deleted") for entry in self.entries)

    @property
    def lines(self) -> tuple[str, ...]:
        """Return ``Deployment/ns/name created`` for whatever is not unchanged."""
        return tuple(str(entry) for entry in self.entries if entry.action != "unchanged")

    @property
    def known(self) -> dict[Identity, Known]:
        """Return what to remember of the objects that we keep; skipped ones are not ours."""
        return {
            entry.ref.identity: Known(
                ref=entry.ref,
                payload_digest=entry.payload_digest,
                entry_digest=entry.entry_digest,
                uid=entry.uid,
                resource_version=entry.resource_version,
                vanishing=entry.vanishing,
            )
            for entry in self.entries
            if entry.action not in ("skipped", "deleted")
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why one object could not be applied; ``reason`` is the API's, e.g. ``Invalid``."""

    ref: ObjectRef
    step: str
    reason: str
    message: str

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.ref} {self.step} failed{reason}: {self.message[:_MAX_MESSAGE]}"


class ApplyError(errors.TransientError):
    """Objects were refused. ``changes`` tells what had been written before.

    All failures of a step are reported together, one a line. An apply that broke off for another
    reason, such as a lost connection, has no failures but that ``message``.
    """

    default_reason: ClassVar[str] = "ReconciliationFailed"

    def __init__(
        self, failures: Sequence[Failure], *, changes: Iterable[Change] = (), message: str = ""
    ) -> None:
        super().__init__(message or _summary(failures))
        self.failures = tuple(failures)
        self.changes = ChangeSet(entries=tuple(changes))


def _summary(failures: Sequence[Failure]) -> str:
    lines = [str(failure) for failure in failures]
    if len(lines) > _MAX_FAILURES:
        lines[_MAX_FAILURES:] = [f"and {len(lines) - _MAX_FAILURES} more"]
    return "\n".join(lines)
