"""Tell what an action came to: its condition, its event and the counters of failures."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from controllers.helm.deciding import outcomes, policies, snapshots
from controllers.helm.deciding.decisions import Action
from controllers.helm.deciding.outcomes import Happening
from controllers.helm.running.work import Work, metadata_of, words
from crds.helm_status import Snapshot

_FAILED: Final[Mapping[Action, Happening]] = MappingProxyType(
    {Action.INSTALL: Happening.INSTALL_FAILED, Action.UPGRADE: Happening.UPGRADE_FAILED}
)
_SUCCEEDED: Final[Mapping[Action, Happening]] = MappingProxyType(
    {Action.INSTALL: Happening.INSTALLED, Action.UPGRADE: Happening.UPGRADED}
)


def released(work: Work, action: Action) -> None:
    """Tell that an installation or upgrade went well."""
    latest = work.latest
    if latest is None:
        return
    metadata = metadata_of(latest) | work.changes
    work.draft.tell(_SUCCEEDED[action], words(latest), metadata=metadata)
    if policies.tests(work.obj) and not snapshots.tested(latest):
        work.draft.tell(Happening.AWAITS_TESTS, words(latest))


def release_failed(
    work: Work, action: Action, error: str, *, log: Sequence[str], recorded: bool
) -> None:
    """Tell that an installation or upgrade failed, and count it."""
    happening = _FAILED[action]
    work.draft.note(outcomes.failed(work.obj, happening, recorded=recorded))
    work.draft.tell(
        happening, {**work.wanted, "error": error}, metadata=work.wanted_metadata, log=log
    )


def rolled_back(work: Work, target: Snapshot | None, error: str, *, log: Sequence[str]) -> None:
    """Tell how going back to a release ended; ``error`` is empty if that went well."""
    if target is None:
        return
    if error:
        work.draft.note({"failures": work.obj.status.failures + 1})
    work.draft.tell(
        Happening.ROLLBACK_FAILED if error else Happening.ROLLED_BACK,
        {**words(target), "error": error},
        metadata=metadata_of(target) | ({} if error else work.changes),
        log=log if error else (),
    )


def uninstalled(work: Work, error: str, *, log: Sequence[str] = ()) -> None:
    """Tell how the uninstallation after a failure ended."""
    latest = work.latest
    if latest is None:
        return
    if error:
        work.draft.note({"failures": work.obj.status.failures + 1})
        happening = Happening.UNINSTALL_REMEDIATION_FAILED
    else:
        happening = Happening.REMEDIATED_BY_UNINSTALL
    work.draft.tell(
        happening, {**words(latest), "error": error}, metadata=metadata_of(latest), log=log
    )


def restore(work: Work, latest: Snapshot) -> None:
    """Say that a release is there of which no condition tells, as when the status was lost."""
    if work.draft.condition(outcomes.RELEASED) or work.draft.condition(outcomes.REMEDIATED):
        return
    action = Action.INSTALL if latest.action == Action.INSTALL.value else Action.UPGRADE
    told = outcomes.told(_SUCCEEDED[action], **words(latest))
    work.draft.rec.mark(told.condition, told.status, told.reason, told.message)
