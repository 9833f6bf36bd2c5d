"""The object of a reconciliation, with all changes of its status so far.

Decisions are pure functions of the object. A reconciliation makes several of them, and each must
see the changes of the status by the ones before, although these are not written yet.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from controllers.helm.deciding import outcomes, summary
from controllers.helm.deciding.outcomes import Happening
from controllers.helm.deciding.summary import Ready
from crds.helm import HelmRelease
from crds.helm_status import HelmReleaseStatus, Snapshot
from crds.meta import Condition
from toolkit.kube.reconciliation import Reconciliation

Pass = Reconciliation[HelmRelease]

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Draft:
    """``obj`` has the changed status; conditions and events go to the reconciliation ``rec``."""

    def __init__(self, rec: Pass) -> None:
        self.rec = rec
        self.obj = rec.obj

    @property
    def conditions(self) -> list[Condition]:
        """Return the conditions with all changes so far."""
        return msgspec.convert(self.rec.conditions, list[Condition])

    @property
    def ready(self) -> Ready | None:
        """Return the Ready condition that follows from the conditions of the actions."""
        return summary.ready(self.obj, self.conditions)

    def note(self, fields: Mapping[str, Any]) -> None:
        """Set fields of the status by their JSON names; None or a default removes a field."""
        given = msgspec.to_builtins(dict(fields))
        before: dict[str, Any] = msgspec.to_builtins(self.obj.status)
        wanted = {name: value for name, value in (before | given).items() if value is not None}
        status = msgspec.convert(wanted, HelmReleaseStatus)
        # The stored status omits defaults. Otherwise each reconciliation would write them again.
        written: dict[str, Any] = msgspec.to_builtins(status)
        self.obj = msgspec.structs.replace(self.obj, status=status)
        self.rec.status({name: written.get(name) for name in given})

    def keep(self, history: Sequence[Snapshot]) -> None:
        """Replace the history, if it differs."""
        if tuple(history) != tuple(self.obj.status.history):
            self.note({"history": list(history) or None})

    def tell(
        self,
        happening: Happening,
        words: Mapping[str, str] = _NOTHING,
        *,
        metadata: Mapping[str, str] = _NOTHING,
        log: Sequence[str] = (),
    ) -> None:
        """Set the condition and send the event of a result; ``words`` fill the placeholders.

        ``log`` are lines of Helm's log to append to the event. A failure that the condition already
        tells is an attempt that ended like the one before, and sends no event again.
        """
        told = outcomes.explained(outcomes.told(happening, **words))
        before = self.condition(told.condition)
        repeated = before is not None and (before.status, before.reason, before.message) == (
            told.status,
            told.reason,
            told.message,
        )
        if told.condition:
            self.rec.mark(told.condition, told.status, told.reason, told.message)
        if told.event and not (repeated and told.event == "error"):
            logs = outcomes.LOGS + "\n".join(log) if log else ""
            self.rec.event(told.event, told.reason, f"{told.message}{logs}", metadata)

    def begin(self, condition: str, message: str) -> None:
        """Set a condition to Unknown with the reason Progressing."""
        self.rec.mark(condition, "Unknown", "Progressing", message)

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of a type, or None."""
        return next((each for each in self.conditions if each.type == type_), None)
