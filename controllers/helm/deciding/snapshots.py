"""``status.history``: the releases since the last one that worked, newest first.

The rules are Flux's (``api/v2/snapshot_types.go``): they tell which release to go back to, and what
of the history is let go once a release is as desired.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from crds.helm import MAX_HISTORY
from crds.helm_status import Snapshot
from toolkit.release import record
from toolkit.release.record import Record

_FAILED: Final = "Failed"
_SUCCEEDED: Final = "Succeeded"
_WORKED: Final = frozenset({record.DEPLOYED, record.SUPERSEDED})

History = Sequence[Snapshot]


def latest(history: History) -> Snapshot | None:
    """Return the newest release."""
    return max(history, key=lambda each: each.version, default=None)


def previous(history: History, *, ignores_tests: bool) -> Snapshot | None:
    """Return the newest release before the latest that worked, and whose tests did."""
    for each in _sorted(history)[1:]:
        if each.status in _WORKED and (ignores_tests or not failed_test(each)):
            return each
    return None


def truncated(history: History, *, ignores_tests: bool) -> tuple[Snapshot, ...]:
    """Return what is kept: up to the release to go back to; without one, the last five."""
    kept = _sorted(history)
    target = previous(kept, ignores_tests=ignores_tests)
    return tuple(kept[: kept.index(target) + 1] if target else kept[:MAX_HISTORY])


def shortened(history: History) -> tuple[Snapshot, ...]:
    """Return the last five, where nothing is ever gone back to."""
    return tuple(_sorted(history)[:MAX_HISTORY])


def tested(snapshot: Snapshot) -> bool:
    """Tell whether the tests have run: one has failed, or all have succeeded."""
    hooks = snapshot.test_hooks
    if hooks is None:
        return False
    return failed_test(snapshot) or all(each.phase == _SUCCEEDED for each in hooks.values())


def failed_test(snapshot: Snapshot) -> bool:
    """Tell whether a test has failed."""
    return any(each.phase == _FAILED for each in (snapshot.test_hooks or {}).values())


def released(
    history: History, records: Sequence[Record], *, action: str, oci_digest: str
) -> tuple[Snapshot, ...]:
    """Return the history with what an installation or upgrade wrote.

    The newest record is a new entry. Of the older ones the first that is known (the release that
    was superseded) is read again, and keeps what is told of its tests and its artifact.
    """
    written = sorted(records, key=lambda each: each.version, reverse=True)
    if not written:
        return tuple(history)
    made = record.snapshot(written[0], action=action, oci_digest=oci_digest)
    kept = list(history)
    for each in written[1:]:
        place = _place(kept, each)
        if place is not None:
            known = kept[place]
            kept[place] = structs.replace(
                record.snapshot(each, oci_digest=known.oci_digest), test_hooks=known.test_hooks
            )
            break
    return (made, *kept)


def updated(history: History, changed: Record, *, action: str) -> tuple[Snapshot, ...]:
    """Return the history with a record that was changed or added by another action.

    An entry that is known keeps its tests and artifact; an empty ``action`` keeps that as well.
    """
    kept = list(history)
    place = _place(kept, changed)
    if place is None:
        return (record.snapshot(changed, action=action), *kept)
    known = kept[place]
    kept[place] = structs.replace(
        record.snapshot(changed, action=action or known.action, oci_digest=known.oci_digest),
        test_hooks=known.test_hooks,
    )
    return tuple(kept)


def release_name(snapshot: Snapshot) -> str:
    """Return the release as messages tell it, ``<namespace>/<name>.v<version>``."""
    return f"{snapshot.namespace}/{snapshot.name}.v{snapshot.version}"


def chart_name(snapshot: Snapshot) -> str:
    """Return the chart as messages tell it, ``<name>@<version>``."""
    return f"{snapshot.chart_name}@{snapshot.chart_version}"


def _place(history: History, found: Record) -> int | None:
    key = (found.name, found.namespace, found.version)
    places = (n for n, e in enumerate(history) if (e.name, e.namespace, e.version) == key)
    return next(places, None)


def _sorted(history: History) -> list[Snapshot]:
    return sorted(history, key=lambda each: each.version, reverse=True)
