"""``status.history``: the releases since the last successful one, newest first. Pure.

The rules are Flux's (``api/v2/snapshot_types.go``): the release to roll back to, and the entries to
drop when the release is as desired.
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
    """Return the newest successful release before the latest one, or None.

    A release with a failed test counts only if ``ignores_tests``.
    """
    for each in _sorted(history)[1:]:
        if each.status in _WORKED and (ignores_tests or not failed_test(each)):
            return each
    return None


def truncated(history: History, *, ignores_tests: bool) -> tuple[Snapshot, ...]:
    """Return the history down to the release to roll back to, else the last five entries."""
    kept = _sorted(history)
    target = previous(kept, ignores_tests=ignores_tests)
    return tuple(kept[: kept.index(target) + 1] if target else kept[:MAX_HISTORY])


def shortened(history: History) -> tuple[Snapshot, ...]:
    """Return the last five entries, for strategies that never roll back."""
    return tuple(_sorted(history)[:MAX_HISTORY])


def tested(snapshot: Snapshot) -> bool:
    """Tell whether the tests have run: one test has failed, or all have succeeded."""
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
    """Return the history with the records that an installation or upgrade wrote.

    The newest record becomes a new entry. The newest of the other records that has an entry (the
    superseded release) replaces this entry, but the test results and the digest of the artifact
    stay.
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
    """Return the history with a record that another action changed or added.

    An existing entry keeps its test results and the digest of its artifact. If ``action`` is empty,
    it keeps its action too.
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
    """Return the release as messages name it, ``<namespace>/<name>.v<version>``."""
    return f"{snapshot.namespace}/{snapshot.name}.v{snapshot.version}"


def chart_name(snapshot: Snapshot) -> str:
    """Return the chart as messages name it, ``<name>@<version>``."""
    return f"{snapshot.chart_name}@{snapshot.chart_version}"


def _place(history: History, found: Record) -> int | None:
    key = (found.name, found.namespace, found.version)
    places = (n for n, e in enumerate(history) if (e.name, e.namespace, e.version) == key)
    return next(places, None)


def _sorted(history: History) -> list[Snapshot]:
    return sorted(history, key=lambda each: each.version, reverse=True)
