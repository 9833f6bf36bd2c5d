"""Convert the faults of an object into a refusal or warnings.

A fault that the old object has too is only a warning, because it may be older than the rule, and
users who change another field must not be blocked by it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
from msgspec import Struct

from crds import misfits, unwritten
from toolkit.objects import Json, ref_of
from webhooks.plugin import Answer, Cause, DeniedError
from webhooks.validation import shapes
from webhooks.validation.rule import Checks, Fault, Rule

LONGEST_WARNING: Final = 120
"""Limit of characters, from the API conventions."""
MOST_WARNINGS: Final = 10
MOST_FAULTS: Final = 64
_MOST_SHOWN: Final = 16
_LONGEST_CAUSE: Final = 512
_INDEX: Final = re.compile(r"\[\d+\]")
UNREADABLE: Final[Rule[object]] = Rule(
    name="unreadable",
    fields=("spec",),
    demands="controllers can read it",
    remedy="see the API reference",
    find=lambda _: iter(()),
)
"""What is refused for this rule, no controller does anything for."""


_UNWRITTEN: Final[Rule[object]] = Rule(
    name="spec-missing",
    fields=("spec",),
    demands="there is something to do",
    remedy="write one, or delete the object",
    find=lambda _: iter(()),
    refuses=False,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault, and the rule that found it."""

    rule: Rule[Any]
    fault: Fault

    @property
    def key(self) -> tuple[str, ...]:
        """Return the part of a fault that stays the same when elements of a list move."""
        place = _INDEX.sub("[]", self.fault.field)
        return self.rule.name, place, self.fault.value, _INDEX.sub("[]", self.fault.why)


def findings(checks: Checks[Any], obj: Json) -> list[Finding]:
    """Return the faults of an object, in the order of the rules; a limited number."""
    found: list[Finding] = []
    for finding in _all(checks, obj):
        found.append(finding)
        if len(found) == MOST_FAULTS:
            break
    return found


def judge(obj: Json, found: Iterable[Finding], before: Iterable[Finding]) -> Answer:
    """Admit the object, with warnings, or refuse it with all reasons at once.

    ``before`` are the faults of the old object.

    Raises:
        DeniedError: 422; the causes name the fields.
    """
    known = {finding.key for finding in before}
    refused: list[Finding] = []
    told: list[Finding] = []
    for finding in found:
        new = finding.rule.refuses and finding.key not in known
        (refused if new else told).append(finding)
    if refused:
        raise _denial(obj, refused)
    return Answer(warnings=warnings(told))


def warnings(told: Iterable[Finding]) -> tuple[str, ...]:
    """Return them as warnings of bounded length and number."""
    lines = list(dict.fromkeys(_line(finding) for finding in told))
    if len(lines) <= MOST_WARNINGS:
        return tuple(lines)
    kept = lines[: MOST_WARNINGS - 1]
    return (*kept, f"and {len(lines) - len(kept)} more warnings")


def _all(checks: Checks[Any], obj: Json) -> Iterator[Finding]:
    for shape in shapes.rules(checks):
        for fault in shape.find(obj):
            yield Finding(shape, fault)
    try:
        model: Struct = msgspec.convert(obj, checks.kind.model)
    except msgspec.ValidationError as exc:
        wrong = misfits.explain(exc, obj, checks.kind.model)
        rule = replace(UNREADABLE, remedy=wrong.remedy)
        yield Finding(rule, Fault(wrong.field, wrong.why, wrong.value))
        return
    if unwritten.missing(getattr(model, "spec", None)):
        yield Finding(_UNWRITTEN, Fault("spec", "it is missing, so nothing is done"))
        return
    for rule in checks.rules:
        for fault in rule.find(model):
            yield Finding(rule, fault)


def _line(finding: Finding) -> str:
    fault, remedy = finding.fault, finding.rule.remedy
    whole = f"{fault.shown}: {remedy}"
    if len(whole) <= LONGEST_WARNING:
        return whole
    shown = fault.shown
    return shown if len(shown) <= LONGEST_WARNING else f"{shown[: LONGEST_WARNING - 1]}…"


def _denial(obj: Json, refused: list[Finding]) -> DeniedError:
    causes = tuple(_cause(finding) for finding in refused[:_MOST_SHOWN])
    lines = [f"{cause.field}: {cause.message}" for cause in causes]
    if len(refused) > _MOST_SHOWN:
        lines.append(f"and {len(refused) - _MOST_SHOWN} more")
    listed = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    return DeniedError(f"{ref_of(obj)} cannot work: {listed}", code=422, causes=causes)


def _cause(finding: Finding) -> Cause:
    rule, fault = finding.rule, finding.fault
    message = f"{fault.shown.removeprefix(fault.field).removeprefix(': ').strip()}"
    text = f"{message[:_LONGEST_CAUSE]}: {rule.remedy} ({rule.name})"
    return Cause(reason="FieldValueInvalid", message=text, field=fault.field)
