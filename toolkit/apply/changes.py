"""The result of an apply: changes, what is cached about the objects, and its failures."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from toolkit import errors
from toolkit.apply.order import Identity
from toolkit.objects import ObjectRef

Action = Literal["created", "configured", "unchanged", "skipped", "deleted"]

_MAX_FAILURES: Final = 12
_MAX_MESSAGE: Final = 2000
"""Room for a refusal with its remedy."""
_ALIKE: Final = 3
"""If more failures than this differ only in names, they are reported together."""
_NAMES: Final = re.compile(
    r""" "(?:[^"\\]|\\.)*+(?:"|\\?\Z) | (?<!\w)'[^']*+'(?!\w) | \[\d++\] """,
    re.VERBOSE | re.DOTALL,
)
"""Quoted text and positions in lists. No text is read twice, because others write the messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The last apply of one object, and the state that the server stored.

    ``payload_digest`` is the digest of what was sent, ``entry_digest`` of our managedFields entry
    afterwards, ``stamp`` the time of that entry. A ``vanishing`` object deletes itself when it is
    done. A ``yielded`` one is only created: its content is left to others.
    """

    ref: ObjectRef
    payload_digest: str
    entry_digest: str
    uid: str
    resource_version: str
    vanishing: bool = False
    yielded: bool = False
    stamp: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The outcome for one object. A skipped one has empty digests, uid and version.

    One that was ``left`` alone because its manifest says so is not the owner's, or not any more.
    """

    ref: ObjectRef
    action: Action
    payload_digest: str = ""
    entry_digest: str = ""
    uid: str = ""
    resource_version: str = ""
    vanishing: bool = False
    yielded: bool = False
    left: bool = False
    stamp: str = ""

    def __str__(self) -> str:
        return f"{self.ref} {self.action}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """The outcome for every object of a set, in the order of writing."""

    entries: tuple[Change, ...] = ()

    @property
    def refs(self) -> tuple[ObjectRef, ...]:
        """Return the objects of the owner: the new inventory."""
        return tuple(entry.ref for entry in self.entries if not entry.left)

    @property
    def left(self) -> tuple[ObjectRef, ...]:
        """Return the objects that are neither the owner's nor to be pruned."""
        return tuple(entry.ref for entry in self.entries if entry.left)

    @property
    def skipped(self) -> tuple[ObjectRef, ...]:
        """Return the objects that were left as they are."""
        return tuple(entry.ref for entry in self.entries if entry.action == "skipped")

    @property
    def changed(self) -> bool:
        """Tell whether anything was written: otherwise there is nothing to announce."""
        return any(entry.action in ("created", "configured", "deleted") for entry in self.entries)

    @property
    def lines(self) -> tuple[str, ...]:
        """Return a line such as ``Deployment/ns/name created`` for each object that has changed."""
        return tuple(str(entry) for entry in self.entries if entry.action != "unchanged")

    @property
    def known(self) -> dict[Identity, Known]:
        """Return the objects to remember; skipped objects are not ours."""
        return {
            entry.ref.identity: Known(
                ref=entry.ref,
                payload_digest=entry.payload_digest,
                entry_digest=entry.entry_digest,
                uid=entry.uid,
                resource_version=entry.resource_version,
                vanishing=entry.vanishing,
                yielded=entry.yielded,
                stamp=entry.stamp,
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

    @property
    def pattern(self) -> tuple[str, str, str, str]:
        """Return the part that failures with the same cause have in common, without names."""
        told = _NAMES.sub("*", self.message[:_MAX_MESSAGE])
        return self.ref.gvk.kind, self.step, self.reason, told


class ApplyError(errors.TransientError):
    """Objects were refused. ``changes`` tells what had been written before.

    All failures of a step are reported together, one a line; many that differ in names alone are
    one line, with their number and some of them. An apply that broke off for another reason, such
    as a lost connection, has no failures but that ``message``.
    """

    default_reason: ClassVar[str] = "ReconciliationFailed"

    def __init__(
        self, failures: Sequence[Failure], *, changes: Iterable[Change] = (), message: str = ""
    ) -> None:
        super().__init__(message or _summary(failures))
        self.failures = tuple(failures)
        self.changes = ChangeSet(entries=tuple(changes))


def _summary(failures: Sequence[Failure]) -> str:
    alike: dict[tuple[str, ...], list[Failure]] = {}
    for failure in failures:
        alike.setdefault(failure.pattern, []).append(failure)
    lines = [line for group in alike.values() for line in _lines(group)]
    if len(lines) > _MAX_FAILURES:
        lines[_MAX_FAILURES:] = [f"and {len(lines) - _MAX_FAILURES} more"]
    return "\n".join(lines)


def _lines(alike: Sequence[Failure]) -> list[str]:
    """Return a line for each of a few failures, and one for many."""
    if len(alike) <= _ALIKE:
        return [str(failure) for failure in alike]
    names = ", ".join(str(failure.ref) for failure in alike[:_ALIKE])
    more = f"{names} and {len(alike) - _ALIKE} more"
    return [f"{len(alike)} objects failed for the same reason ({more}), the first: {alike[0]}"]
