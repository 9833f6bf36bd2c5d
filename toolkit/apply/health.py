"""The health of an object: kstatus, with CEL rules of users.

The order is that of kstatus (``cli-utils/pkg/kstatus/status``): a deletion in progress, an
unobserved generation, the Reconciling and Stalled conditions, then the rule of the kind, then the
Ready condition. An object with none of these is Current. A CEL rule for the kind replaces all but
the first two.

Pure; the result depends only on the given version of the object.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from toolkit import errors
from toolkit.apply import expressions, fields, kstatus
from toolkit.apply.expressions import Expression
from toolkit.objects import Json, dig, gvk_of

_MAX_MESSAGE: Final = 500
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
    """Compiled CEL rules for one API version and kind; an empty kind matches all kinds."""

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


def compile_rules(specs: Sequence[Mapping[str, str]]) -> tuple[Rule, ...]:
    """Compile ``spec.healthCheckExprs``, given with their JSON names.

    Raises:
        StalledError: reason ``InvalidCELExpression``; which expression, and why.
    """
    expressions.require_few(spec.get(name, "") for spec in specs for name in _EXPRESSIONS)
    return tuple(
        Rule(
            api_version=spec["apiVersion"],
            kind=spec.get("kind", ""),
            current=_compiled(spec, "current"),
            failed=_compiled(spec, "failed") if spec.get("failed") else None,
            in_progress=_compiled(spec, "inProgress") if spec.get("inProgress") else None,
        )
        for spec in specs
    )


def assess(obj: Json, rules: Iterable[Rule] = ()) -> Health:
    """Judge a live object; the first rule that covers it counts."""
    rule = next((rule for rule in rules if rule.covers(obj)), None)
    for step in (_deletion, _generation, _custom(rule) if rule else _builtin):
        found = step(obj)
        if found is not None:
            return _shortened(found)
    return _CURRENT


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
    if generation is None or observed is None or generation == observed:
        return None
    return Health(
        Status.IN_PROGRESS,
        f"{obj.get('kind')} generation is {generation}, but latest observed generation is"
        f" {observed}",
    )


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


def _custom(rule: Rule) -> Callable[[Json], Health]:
    return lambda obj: _evaluated(rule, obj)


def _evaluated(rule: Rule, obj: Json) -> Health:
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
    variables = {**obj, "metadata": metadata}
    try:
        if rule.in_progress and rule.in_progress.holds(variables):
            return Health(Status.IN_PROGRESS, "inProgress expression is true")
        if rule.failed and rule.failed.holds(variables):
            return Health(Status.FAILED, "failed expression is true")
        if rule.current.holds(variables):
            return Health(Status.CURRENT, "current expression is true")
    except errors.StalledError as exc:
        return Health(Status.FAILED, str(exc))
    return Health(Status.IN_PROGRESS, "no expression is true")


def _compiled(spec: Mapping[str, str], name: str) -> Expression:
    try:
        return expressions.compiled(spec[name])
    except errors.StalledError as exc:
        kind = f"{spec['apiVersion']}/{spec.get('kind') or '*'}"
        raise errors.StalledError(
            f"{name} expression for {kind}: {exc}", reason=expressions.INVALID
        ) from exc
