"""Whether the cluster is as the release says, and making it so again.

The watches tell when an object is no longer as an action left it. Then, and after a start, the API
server is asked what an apply of the release's objects would change; nothing is written by that. A
correction is an apply of what differs, with the field manager that released it, so it has the same
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
"""How long a look waits for the watches of its kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What differs, and the objects as they are to be.

    Objects without findings have the values of the release, but not by an apply, so that no watch
    can tell when they change.
    """

    findings: tuple[Finding, ...] = ()
    objects: tuple[Json, ...] = ()


async def _tell_nobody(_: Sequence[ObjectRef]) -> None:
    """Stand in where nobody needs to know."""


def detects(obj: HelmRelease) -> bool:
    """Tell whether differences are looked for."""
    return policies.drift_mode(obj) != "disabled"


def corrects(obj: HelmRelease) -> bool:
    """Tell whether differences are corrected."""
    return policies.drift_mode(obj) == "enabled"


async def check(work: Work, objects: Sequence[Json], *, concurrency: int) -> Drift:
    """Return what differs; without objects the watches know what to expect from now on.

    Where they knew that before, what they prove to be untouched is not asked for again. Objects
    that have the right values are applied nevertheless if no watch can tell that: a release of
    client-side apply becomes the controller's own, and its values stay. ``warn`` writes nothing.

    Raises:
        ApplyError: the objects of the release cannot be named, or the server refuses them.
        ApiError: the API server cannot be asked.
    """
    proven = work.cluster.live.untouched(work.draft.rec.key) if work.compared else frozenset()
    wanted = [each for each in subject(work, objects) if ref_of(each).identity not in proven]
    options = _options(work.obj, concurrency)
    if not work.compared:
        live, key = work.cluster.live, work.draft.rec.key
        live.ensure(key, {gvk_of(each) for each in wanted})
        # after a restart: what the watches show spares writes that would change nothing
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
    """Apply what differs, tell it, and tell whether all went well."""
    latest = work.latest
    if latest is None:
        return False
    try:
        changes = await _apply(work, drift.objects, _options(work.obj, concurrency))
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
    """Something would be written: nothing is, by a look."""


def tell(work: Work, drift: Drift) -> None:
    """Say in a condition and an event what differs, or that nothing does."""
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
    """Say that nothing differs, if that was looked for; say nothing otherwise."""
    if looked:
        draft.tell(Happening.NO_DRIFT)
    else:
        draft.rec.unmark(outcomes.DRIFTED)


def subject(work: Work, objects: Sequence[Json]) -> tuple[Json, ...]:
    """Return the objects to compare, as Helm applied them; one may say that it is left alone."""
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
    announce: ssa.Announce = _tell_nobody,
) -> ChangeSet:
    """Apply objects of the release, and have the watches expect what that leaves."""
    key, cluster = work.draft.rec.key, work.cluster
    cluster.live.hold(key)
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


def _options(obj: HelmRelease, concurrency: int) -> ApplyOptions:
    said = obj.spec.drift_detection
    return ApplyOptions(
        owner=Owner(namespace=obj.metadata.namespace, name=obj.metadata.name, group=outcomes.GROUP),
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
    """Return what differs in one object, as Flux counts it (``internal/diff/summarize.go``)."""
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
    """Tell whether all that is compared was applied, so that the watches know what to expect.

    What was written client-side has no entry of an apply by which they could tell a change.
    """
    applied = {identity for identity, known in written.items() if known.entry_digest}
    return all(ref_of(each).identity in applied for each in subject(work, objects))
