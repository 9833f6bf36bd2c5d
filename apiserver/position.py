"""Resource versions: numbers that identify a state here, and can be compared between replicas.

A version is ``<etcd revision><3 digits: count within it><3 digits: tag of the process>``. Its high
part is the highest observed revision of any backing object, so that replicas, which observe the
same objects, are close to each other. The tag identifies the process, because two replicas never
return the same number for the same state. KEP-5504 requires a growing decimal number.

A version of another replica is compared by time (``Clock.passed``): ADR 16 has the reasoning.
Nothing here depends on the objects.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from apiserver import status

_COUNT: Final = 1_000
_REVISION: Final = 1_000_000
_LARGEST: Final = (1 << 64) - 1
_REMEMBERED: Final = 50_000
"""Limit of remembered versions; others count as another replica's, which costs a resend."""
_GRAIN: Final = 0.25
"""Seconds; moments closer together are kept as the first of them."""
_MOMENTS: Final = 4_000


class Clock:
    """Counts the versions of one process; ``time`` is a monotonic clock in seconds."""

    def __init__(self, *, tag: int, time: Callable[[], float]) -> None:
        if not 0 <= tag < _COUNT:
            raise ValueError(f"a replica's tag is a number below {_COUNT}, not {tag}")
        self.tag = tag
        self._time = time
        self._now = tag
        self._issued: dict[int, None] = {}
        self._revisions: list[int] = []
        self._moments: list[float] = []

    @property
    def revision(self) -> int:
        """Return the highest backing revision so far."""
        return revision_of(self._now)

    @property
    def latest(self) -> int:
        """Return the current version without handing it out."""
        return self._now

    def advance(self, revision: int) -> None:
        """Note that the backing objects are at ``revision``; an older one changes nothing."""
        if revision > self.revision:
            self._move(revision * _REVISION + self.tag)

    def tick(self, revision: int) -> int:
        """Hand out a version that is greater than all before, for a change at ``revision``.

        More than 999 changes at one revision run over into the next: order matters more.
        """
        self.advance(revision)
        self._move(self._now + _COUNT)
        return self.issue()

    def issue(self) -> int:
        """Hand out the current version."""
        self._issued[self._now] = None
        if len(self._issued) > _REMEMBERED:
            del self._issued[next(iter(self._issued))]
        return self._now

    def issued(self, version: int) -> bool:
        """Tell whether this very process handed the version out."""
        return version in self._issued

    def passed(self, revision: int) -> float | None:
        """Return when this process observed the revision; None if it is unknown.

        The time is never too late, and at most a quarter of a second too early.
        """
        index = bisect_left(self._revisions, revision)
        forgotten = index == 0 and (not self._revisions or self._revisions[0] != revision)
        return None if forgotten or index == len(self._moments) else self._moments[index]

    def beyond(self, version: int) -> int:
        """Return a version greater than another replica's, and move the clock beyond both.

        It is a version that this process never returns otherwise. So a client that returns with it
        is treated as if it had the other replica's.

        Raises:
            StatusError: 410, there is no such number within the revision. Only changes may use the
                next revision, because otherwise a client could move the clock ahead of etcd.
        """
        after = version - version % _COUNT + self.tag
        while after <= version or after in self._issued:
            after += _COUNT
        if after + _COUNT > self._now:
            if revision_of(after + _COUNT) > self.revision:
                raise too_old(version, self._now)
            self._now = after + _COUNT
        return after

    def _move(self, version: int) -> None:
        """Set the clock, and note the moment of a new revision."""
        revision = revision_of(version)
        if not self._revisions or revision > self._revisions[-1]:
            self._note(revision)
        self._now = version

    def _note(self, revision: int) -> None:
        at = self._time()
        if len(self._moments) > 1 and at - self._moments[-1] < _GRAIN:
            self._revisions[-1] = revision
            return
        self._revisions.append(revision)
        self._moments.append(at)
        if len(self._moments) > _MOMENTS:
            del self._moments[: _MOMENTS // 4], self._revisions[: _MOMENTS // 4]


def revision_of(version: int) -> int:
    """Return the etcd revision that a version is about."""
    return version // _REVISION


def parse(text: str) -> int:
    """Parse a resource version of a request; empty and ``0`` are 0.

    Raises:
        StatusError: 400, it is not a 64-bit number (message of ``storage.APIObjectVersioner``).
    """
    if text in {"", "0"}:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise _invalid(text, "invalid syntax")
    if len(text) > len(str(_LARGEST)) or int(text) > _LARGEST:
        raise _invalid(text, "value out of range")
    return int(text)


def too_old(version: int, oldest: int) -> status.StatusError:
    """Return the error that the events since a version were dropped (``cacher/watch_cache.go``)."""
    return status.expired(f"too old resource version: {version} ({oldest})")


def too_large(version: int, current: int) -> status.StatusError:
    """Say that this replica is not there yet (``storage.NewTooLargeResourceVersionError``)."""
    cause = status.Cause(reason="ResourceVersionTooLarge", message="Too large resource version")
    return status.StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {version}, current: {current}",
        status.Details(causes=(cause,), retry_after=1),
    )


def _invalid(text: str, why: str) -> status.StatusError:
    shown = text[:64]
    return status.bad_request(
        f'invalid resource version: resourceVersion: Invalid value: "{shown}":'
        f' strconv.ParseUint: parsing "{shown}": {why}'
    )
