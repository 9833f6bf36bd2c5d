"""Detect and correct drift: differences between the cluster and the release.

The watches report when an object differs from what an action applied. Then, and after a start of
the process, the objects of the release are applied as a dry-run, which shows the differences. A
correction applies the objects that differ, with the field manager of releases, so it sets the same
fields as the release (helm-controller ``internal/action/diff.go``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from controllers.helm.deciding import manifests, outcomes, policies
from controllers.helm.deciding.orders import MANAGER
from controllers.helm.deciding.outcomes import Happening
from controllers.helm.running.draft import Draft
from controllers.helm.running.work import Work, metadata_of, words
from crds.helm import HelmRelease
from toolkit.apply import diff, ownership, ssa
from toolkit.apply.changes import ApplyError, ChangeSet, Known
from toolkit.apply.comparison import Difference
from toolkit.apply.diff import Finding
from toolkit.apply.ignore import IgnoreRule
from toolkit.apply.options import ApplyOptions
from toolkit.apply.order import Identity
from toolkit.apply.ownership import Owner
from toolkit.apply.selector import Selector
from toolkit.errors import TransientError
from toolkit.objects import Json, ObjectRef, gvk_of, ref_of

_SEEN_SECONDS: Final = 2.0
"""How long a check waits until the watches have synced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The differences, and the objects to apply.

    Objects without findings have the values of the release, but no fields applied by our field
    manager. A watch cannot tell when such an object changes.
    """

    findings: tuple[Finding, ...] = ()
    objects: tuple[Json, ...] = ()


async def _ignore(_: Sequence[ObjectRef]) -> None:
    """Do nothing: the default ``announce`` of an apply."""


def detects(obj: HelmRelease) -> bool:
    """Tell whether the spec enables drift detection."""
    return policies.drift_mode(obj) != "disabled"


def corrects(obj: HelmRelease) -> bool:
    """Tell whether the spec enables drift correction."""
    return policies.drift_mode(obj) == "enabled"


async def check(work: Work, objects: Sequence[Json], *, concurrency: int) -> Drift:
    """Return the differences between the cluster and the release.

    If the result has no ``objects``, the watches report every later change. Objects that the
    watches prove to be unchanged are not compared again. With the mode ``enabled``, objects that
    have the right values but fields of client-side apply are applied, so that the watches can
    follow them; their values stay. The mode ``warn`` writes nothing.

    Raises:
        ApplyError: an object of the release is invalid, or the API server refuses it.
        ApiError: the API server cannot be reached.
    """
    proven = work.cluster.live.untouched(work.draft.rec.key) if work.compared else frozenset()
    wanted = [each for each in subject(work, objects) if ref_of(each).identity not in proven]
    options = _options(work, concurrency)
    if not work.compared:
        live, key = work.cluster.live, work.draft.rec.key
        live.ensure(key, {gvk_of(each) for each in wanted})
        # After a restart: with synced watches, unchanged objects need no request.
        await live.wait_synced(key, timeout=_SEEN_SECONDS)
    differing: list[ObjectRef] = []

    async def stop(writing: Sequence[ObjectRef]) -> None:
        differing.extend(writing)
        raise _DiffersError("objects differ")

    try:
        await _apply(work, wanted, options, announce=stop)
    except _DiffersError:
        identities = {ref.identity for ref in differing}
        left = tuple(each for each in wanted if ref_of(each).identity in identities)
        findings = await diff.diff(work.target.client, left, options=options)
        if findings or not corrects(work.obj):
            return Drift(findings=findings, objects=tuple(wanted))
        await _apply(work, wanted, options)
    return Drift()


async def correct(work: Work, drift: Drift, *, concurrency: int) -> bool:
    """Apply the objects that differ and send an event; return whether all of them were applied."""
    latest = work.latest
    if latest is None:
        return False
    try:
        changes = await _apply(work, drift.objects, _options(work, concurrency))
    except ApplyError as error:
        changed = [each for each in error.changes.entries if each.action != "unchanged"]
        corrected = "\n".join(map(str, changed))
        work.draft.tell(
            Happening.DRIFT_CORRECTION_FAILED,
            {
                **words(latest),
                "partially": "partially " if changed else "",
                "error": str(error),
                "corrected": f"\n\nSuccessful corrections:\n{corrected}" if changed else "",
            },
            metadata=metadata_of(latest),
        )
        return False
    found = {each.ref for each in drift.findings}
    if lines := [str(each) for each in changes.entries if each.ref in found]:
        work.draft.tell(
            Happening.DRIFT_CORRECTED,
            {**words(latest), "changes": "\n".join(lines)},
            metadata=metadata_of(latest),
        )
    return True


class _DiffersError(TransientError):
    """An apply would write objects; raised to stop before it does."""


def tell(work: Work, drift: Drift) -> None:
    """Set the condition Drifted, and send an event with the differences if there are any."""
    latest = work.latest
    if latest is None:
        return
    if not drift.findings:
        clear(work.draft, looked=True)
        return
    work.draft.tell(
        Happening.DRIFT,
        {**words(latest), "changes": "\n".join(map(_line, drift.findings))},
        metadata=metadata_of(latest),
    )


def clear(draft: Draft, *, looked: bool) -> None:
    """Set Drifted to False if the cluster was compared; otherwise remove the condition."""
    if looked:
        draft.tell(Happening.NO_DRIFT)
    else:
        draft.rec.unmark(outcomes.DRIFTED)


def subject(work: Work, objects: Sequence[Json]) -> tuple[Json, ...]:
    """Return the objects to compare, as Helm applied them.

    Objects on which drift detection is disabled by label or annotation are left out.
    """
    owner = Owner(
        namespace=work.obj.metadata.namespace, name=work.obj.metadata.name, group=outcomes.GROUP
    )
    return tuple(
        manifests.applied(each, work.obj)
        for each in objects
        if work.renders(each) and not ownership.marked(each, owner, "driftDetection", "disabled")
    )


async def _apply(
    work: Work,
    objects: Sequence[Json],
    options: ApplyOptions,
    *,
    announce: ssa.Announce = _ignore,
) -> ChangeSet:
    """Apply objects of the release, and tell the watches what to expect afterwards."""
    key, cluster = work.draft.rec.key, work.cluster
    cluster.live.hold(key, {ref_of(each).identity for each in objects})
    try:
        changes = await ssa.apply(
            work.target.client,
            objects,
            options=options,
            clock=cluster.clock,
            find=cluster.live.find,
            pace=cluster.pace,
            announce=announce,
        )
    except ApplyError as error:
        cluster.live.expect(key, error.changes.known, partial=True)
        raise
    except BaseException:
        cluster.live.release(key)
        raise
    cluster.live.expect(key, changes.known, partial=work.compared)
    cluster.rivals.pop(key, None)
    return changes


def _options(work: Work, concurrency: int) -> ApplyOptions:
    obj = work.obj
    said = obj.spec.drift_detection
    return ApplyOptions(
        owner=Owner(
            namespace=obj.metadata.namespace,
            name=obj.metadata.name,
            group=outcomes.GROUP,
            keeps=work.target.keeps,
        ),
        manager=MANAGER,
        recheck=True,
        ignore=tuple(
            IgnoreRule(
                paths=tuple(rule.paths),
                target=Selector(**msgspec.structs.asdict(rule.target))
                if rule.target
                else Selector(),
            )
            for rule in (said.ignore if said else ())
        ),
        concurrency=concurrency,
    )


def _line(finding: Finding) -> str:
    """Return one line with the differences of an object, counted as in Flux.

    The source of the rule is helm-controller's ``internal/diff/summarize.go``.
    """
    if finding.fate == "created":
        return f"{finding.ref} removed"
    if finding.failure is not None:
        return str(finding.failure)
    counts = {op: _count(finding.differences, op) for op in ("+", "~", "-")}
    return (
        f"{finding.ref} changed ({counts['+']} additions, {counts['~']} changes,"
        f" {counts['-']} removals)"
    )


def _count(differences: Sequence[Difference], op: str) -> int:
    return sum(one.op == op for one in differences)


def complete(work: Work, objects: Sequence[Json], written: Mapping[Identity, Known]) -> bool:
    """Tell whether server-side apply wrote all compared objects, so that watches show each change.

    An object written client-side has no managedFields entry of an apply to compare.
    """
    applied = {identity for identity, known in written.items() if known.entry_digest}
    return all(ref_of(each).identity in applied for each in subject(work, objects))
