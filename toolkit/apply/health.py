"""The health of an object: kstatus, with CEL rules of users.

The order is that of kstatus (``cli-utils/pkg/kstatus/status``): a deletion in progress, an
unobserved generation, the Reconciling and Stalled conditions, then the rule of the kind, then the
Ready condition. An object with none of these is Current. A CEL rule for the kind replaces all but
the first two. Unlike in kstatus, a suspended object of Flux has no unobserved generation: its
controller observes none until it is resumed, so its health is that of its last reconciliation.

Pure; the result depends only on the given version of the object. Expressions are evaluated
elsewhere (``judging``): here is what to evaluate, and what the outcomes mean.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from toolkit.apply import fields, kstatus
from toolkit.errors import StalledError
from toolkit.expressions import expression as expressions
from toolkit.expressions.evaluator import Case, Step
from toolkit.expressions.expression import Expression, Outcome
from toolkit.objects import Json, dig, gvk_of

_MAX_MESSAGE: Final = 500
_SUSPENDABLE: Final = (".fluxcd.io", ".penstock.dev")
"""Groups of the kinds that a controller leaves alone while ``spec.suspend`` is true."""
_EXPRESSIONS: Final = ("current", "failed", "inProgress")


class Status(Enum):
    """The words of kstatus."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Health:
    """A verdict on one object, and why."""

    status: Status
    message: str = ""


NOT_FOUND: Final = Health(Status.NOT_FOUND, "Resource not found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """CEL rules for one API version and kind; an empty kind matches all kinds."""

    api_version: str
    kind: str
    current: Expression
    failed: Expression | None = None
    in_progress: Expression | None = None

    def covers(self, obj: Mapping[str, Any]) -> bool:
        """Tell whether the rule is for this object."""
        same_version = obj.get("apiVersion") == self.api_version
        return same_version and self.kind in ("", obj.get("kind"))

    @property
    def key(self) -> str:
        """Return a digest of the rule: equal rules judge alike."""
        texts = [e.text if e else "" for e in (self.current, self.failed, self.in_progress)]
        return fields.digest([self.api_version, self.kind, *texts])

    @property
    def ordered(self) -> tuple[tuple[Expression, Health], ...]:
        """Return the expressions in the order in which they count, and what each means."""
        given = (
            (self.in_progress, Health(Status.IN_PROGRESS, "inProgress expression is true")),
            (self.failed, Health(Status.FAILED, "failed expression is true")),
            (self.current, Health(Status.CURRENT, "current expression is true")),
        )
        return tuple((expression, found) for expression, found in given if expression)


def rules_of(specs: Sequence[Mapping[str, str]]) -> tuple[Rule, ...]:
    """Read ``spec.healthCheckExprs``, given with their JSON names; nothing is compiled.

    Raises:
        InvalidError: there are too many, or they are too long.
    """
    expressions.require_few(spec.get(name, "") for spec in specs for name in _EXPRESSIONS)
    return tuple(
        Rule(
            api_version=spec["apiVersion"],
            kind=spec.get("kind", ""),
            current=Expression(text=spec["current"]),
            failed=_optional(spec.get("failed", "")),
            in_progress=_optional(spec.get("inProgress", "")),
        )
        for spec in specs
    )


def named(rules: Iterable[Rule]) -> Iterator[tuple[str, Expression]]:
    """Yield the expressions of rules with their names in messages."""
    for rule in rules:
        whose = f"expression for {rule.api_version}/{rule.kind or '*'}"
        given = zip(_EXPRESSIONS, (rule.current, rule.failed, rule.in_progress), strict=True)
        for name, expression in given:
            if expression:
                yield f"{name} {whose}", expression


def assess(obj: Json) -> Health:
    """Judge a live object by the built-in rules."""
    return _shortened(settled(obj) or _builtin(obj) or _CURRENT)


def settled(obj: Json) -> Health | None:
    """Return the health that no rule changes: of a deletion, or an unobserved generation."""
    return _deletion(obj) or _generation(obj)


def case(rule: Rule, obj: Json) -> Case:
    """Return what is to be evaluated to judge an object by a rule."""
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
    steps = [Step(expression=expression) for expression, _ in rule.ordered]
    return Case(given={**obj, "metadata": metadata}, steps=steps)


def judged(rule: Rule, outcomes: Sequence[Outcome]) -> Health:
    """Return the health that the outcomes of a ``case`` mean."""
    try:
        for (expression, found), outcome in zip(rule.ordered, outcomes, strict=True):
            if expressions.holds(expression, outcome):
                return found
    except StalledError as exc:
        return failure(exc)
    return Health(Status.IN_PROGRESS, "no expression is true")


def failure(error: StalledError) -> Health:
    """Return the health of an object whose rule cannot be evaluated."""
    return _shortened(Health(Status.FAILED, str(error)))


_CURRENT: Final = Health(Status.CURRENT, "Resource is current")


def _shortened(found: Health) -> Health:
    if len(found.message) <= _MAX_MESSAGE:
        return found
    return Health(found.status, found.message[:_MAX_MESSAGE])


def vanishes(obj: Json) -> bool:
    """Tell whether the object deletes itself when it is done: a Job with a time to live."""
    job = gvk_of(obj).group_kind == ("batch", "Job")
    return job and dig(obj, "spec", "ttlSecondsAfterFinished") is not None


def _deletion(obj: Json) -> Health | None:
    if dig(obj, "metadata", "deletionTimestamp"):
        return Health(Status.TERMINATING, "Resource scheduled for deletion")
    return None


def _generation(obj: Json) -> Health | None:
    generation = dig(obj, "metadata", "generation")
    observed = dig(obj, "status", "observedGeneration")
    if generation is None or observed is None or generation == observed or _is_suspended(obj):
        return None
    return Health(
        Status.IN_PROGRESS,
        f"{obj.get('kind')} generation is {generation}, but latest observed generation is"
        f" {observed}",
    )


def _is_suspended(obj: Json) -> bool:
    ours = gvk_of(obj).group.endswith(_SUSPENDABLE)
    return ours and dig(obj, "spec", "suspend") is True


def _builtin(obj: Json) -> Health | None:
    conditions = kstatus.conditions_of(obj)
    for type_, status in (("Reconciling", Status.IN_PROGRESS), ("Stalled", Status.FAILED)):
        if kstatus.is_true(conditions, type_):
            return Health(status, str(conditions[type_].get("message") or type_))
    judge = kstatus.BY_KIND.get(gvk_of(obj).group_kind)
    if judge is not None:
        judged = judge(obj, conditions)
        return Health(Status(judged.status), judged.message)
    if "Ready" in conditions and not kstatus.is_true(conditions, "Ready"):
        return Health(Status.IN_PROGRESS, str(conditions["Ready"].get("message") or "not ready"))
    return None


def _optional(text: str) -> Expression | None:
    return Expression(text=text) if text else None
