"""Report the result of an action: its condition, its event and the failure counters."""

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
_SCHEMA_NOT_READ: Final = "SchemaNotRead"
_SUCCEEDED: Final[Mapping[Action, Happening]] = MappingProxyType(
    {Action.INSTALL: Happening.INSTALLED, Action.UPGRADE: Happening.UPGRADED}
)


def released(work: Work, action: Action) -> None:
    """Report a successful installation or upgrade."""
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
    """Report and count a failed installation or upgrade."""
    happening = _FAILED[action]
    work.draft.note(outcomes.failed(work.obj, happening, recorded=recorded))
    work.draft.tell(
        happening, {**work.wanted, "error": error}, metadata=work.wanted_metadata, log=log
    )


def unchecked(work: Work, parts: Sequence[str]) -> None:
    """Set a condition, and an event when it changes, with the schemas that were not read."""
    if not parts:
        work.draft.rec.unmark(outcomes.VALIDATED)
        return
    message = (
        f"{'; '.join(parts)}: no other host is asked for a schema, so what it demands of the values"
        " is not validated"
    )
    before = work.draft.condition(outcomes.VALIDATED)
    if before is None or before.message != message:
        work.draft.rec.event("info", _SCHEMA_NOT_READ, message)
    work.draft.rec.mark(outcomes.VALIDATED, "False", _SCHEMA_NOT_READ, message)


def rolled_back(work: Work, target: Snapshot | None, error: str, *, log: Sequence[str]) -> None:
    """Report the end of a rollback to ``target``; ``error`` is empty if it succeeded."""
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
    """Report the end of an uninstallation after a failure; ``error`` is empty on success."""
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
    """Set Released if no condition shows the release, for example because the status was lost."""
    if work.draft.condition(outcomes.RELEASED) or work.draft.condition(outcomes.REMEDIATED):
        return
    action = Action.INSTALL if latest.action == Action.INSTALL.value else Action.UPGRADE
    told = outcomes.told(_SUCCEEDED[action], **words(latest))
    work.draft.rec.mark(told.condition, told.status, told.reason, told.message)
