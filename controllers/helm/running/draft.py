"""The object of a pass, with its status as it is from here on.

Decisions are pure functions over the object. A pass takes several, so what one of them noted must
be seen by the next, before it is written.
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
    """``obj`` has the status that was noted; conditions and events go to the pass."""

    def __init__(self, rec: Pass) -> None:
        self.rec = rec
        self.obj = rec.obj

    @property
    def conditions(self) -> list[Condition]:
        """Return the conditions as they are from here on."""
        return msgspec.convert(self.rec.conditions, list[Condition])

    @property
    def ready(self) -> Ready | None:
        """Return what Ready is to say, of what the actions came to."""
        return summary.ready(self.obj, self.conditions)

    def note(self, fields: Mapping[str, Any]) -> None:
        """Set fields of the status by their JSON names; None and defaults remove one."""
        given = msgspec.to_builtins(dict(fields))
        before: dict[str, Any] = msgspec.to_builtins(self.obj.status)
        wanted = {name: value for name, value in (before | given).items() if value is not None}
        status = msgspec.convert(wanted, HelmReleaseStatus)
        # A default is left out when it is read again, and would be written each time.
        written: dict[str, Any] = msgspec.to_builtins(status)
        self.obj = msgspec.structs.replace(self.obj, status=status)
        self.rec.status({name: written.get(name) for name in given})

    def keep(self, history: Sequence[Snapshot]) -> None:
        """Replace the history, if it is another one."""
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
        """Put a happening into its condition and its event; ``words`` are those of its text."""
        told = outcomes.told(happening, **words)
        if told.condition:
            self.rec.mark(told.condition, told.status, told.reason, told.message)
        if told.event:
            logs = outcomes.LOGS + "\n".join(log) if log else ""
            self.rec.event(told.event, told.reason, f"{told.message}{logs}", metadata)

    def begin(self, condition: str, message: str) -> None:
        """Say that what the condition tells of is under way."""
        self.rec.mark(condition, "Unknown", "Progressing", message)

    def condition(self, type_: str) -> Condition | None:
        """Return a condition."""
        return next((each for each in self.conditions if each.type == type_), None)
