"""The format of a plan: the dry-runs of an applier's objects, without secret values.

The comparison masks the values of Secrets (``toolkit.apply.comparison``). This module masks all
values of any other object that contains a secret value.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from controllers.applying import redaction
from toolkit.apply import comparison
from toolkit.apply.comparison import Difference
from toolkit.apply.diff import Fate, Finding
from toolkit.apply.order import Identity
from toolkit.objects import Json, ref_of

_MAX_MESSAGE: Final = 2000
_MANY: Final = 20_000
"""Secret values above which every value is masked, rather than looked for."""


class Field(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One field that would change; values are JSON, cut and masked."""

    action: Literal["added", "changed", "removed"]
    path: str
    before: str = ""
    after: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The change that a reconciliation would make to one object."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str
    action: Fate
    message: str = ""
    differences: tuple[Field, ...] = ()


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """A hook that would run; a plan runs none."""

    kind: str
    name: str
    events: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that a reconciliation would make, and the number of unchanged objects."""

    revision: str
    unchanged: int
    changes: tuple[Change, ...] = ()
    hooks: tuple[Hook, ...] | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """The secret values to mask anywhere; ``every`` masks all text, if the values are not known."""

    values: Collection[str] = field(default=frozenset(), repr=False)
    every: bool = False

    def holds(self, text: str) -> bool:
        """Tell whether a text must not be shown, because some of it is secret, now or then."""
        if self.every or len(self.values) > _MANY:
            return True
        return bool(self.values) and self.text(text) != text

    def hides(self, obj: Json | None) -> bool:
        """Tell whether no value of an object may be shown; of an unknown one none, to be safe."""
        if obj is None:
            return self.every or bool(self.values)
        return self.holds(json.dumps(obj, ensure_ascii=False))

    def text(self, message: str) -> str:
        """Return a message without secret values; if these are not known, a fixed text."""
        if self.every:
            return "the message is not shown, because it may contain a secret"
        return redaction.hide(message, self.values)


def of(
    revision: str,
    found: Sequence[Finding],
    objects: Sequence[Json],
    mask: Mask,
    *,
    hooks: tuple[Hook, ...] = (),
) -> Plan:
    """Return the plan of objects, of which ``found`` would change."""
    built = {ref_of(obj).identity: obj for obj in objects}
    told = {finding.ref.identity for finding in found}
    return Plan(
        revision=revision,
        unchanged=sum(identity not in told for identity in built),
        changes=tuple(_change(one, built, mask) for one in found),
        hooks=hooks or msgspec.UNSET,
    )


def _change(finding: Finding, built: Mapping[Identity, Json], mask: Mask) -> Change:
    ref, failure = finding.ref, finding.failure
    differences = finding.differences
    # The comparison has masked the differences; this checks all other fields of the object.
    whole = built.get(ref.identity)
    if differences and mask.hides(whole):
        differences = comparison.masked(differences)
    message = mask.text(failure.message)[:_MAX_MESSAGE] if failure else ""
    return Change(
        api_version=ref.gvk.api_version,
        kind=ref.gvk.kind,
        namespace=ref.namespace,
        name=ref.name,
        action=finding.fate,
        message=message,
        differences=tuple(map(_field, differences)),
    )


_ACTIONS: Final[dict[str, Literal["added", "changed", "removed"]]] = {
    "+": "added",
    "~": "changed",
    "-": "removed",
}


def _field(difference: Difference) -> Field:
    return Field(
        action=_ACTIONS[difference.op],
        path=difference.path,
        before=difference.old,
        after=difference.new,
    )
