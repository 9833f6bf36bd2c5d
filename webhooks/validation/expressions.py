"""Rules for CEL expressions of appliers: health checks and ``readyExpr``; results are cached.

Compiling takes up to four milliseconds per thousand characters, so the length per object is
limited.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from crds.kustomize_parts import CustomHealthCheck
from toolkit.apply import expressions
from toolkit.errors import StalledError
from webhooks.validation.remembered import remembered
from webhooks.validation.rule import Fault, Rule, WithSpec


class _Dependency(Protocol):
    @property
    def ready_expr(self) -> str: ...


class _Applying(Protocol):
    @property
    def health_check_exprs(self) -> Sequence[CustomHealthCheck]: ...
    @property
    def depends_on(self) -> Sequence[_Dependency]: ...


def warm() -> None:
    """Load the engine, so that no review waits for it."""
    problem("true")


@remembered(answers=1024)
def problem(text: str) -> str:
    """Return why an expression is invalid; empty if it is valid."""
    try:
        expressions.Expression(text)
    except StalledError as exc:
        return str(exc)
    return ""


def _texts(obj: WithSpec[_Applying]) -> Iterator[tuple[str, str]]:
    for number, check in enumerate(obj.spec.health_check_exprs):
        field = f"spec.healthCheckExprs[{number}]"
        yield f"{field}.current", check.current
        yield f"{field}.failed", check.failed
        yield f"{field}.inProgress", check.in_progress
    for number, dependency in enumerate(obj.spec.depends_on):
        yield f"spec.dependsOn[{number}].readyExpr", dependency.ready_expr


def _invalid(obj: WithSpec[_Applying]) -> Iterator[Fault]:
    left = expressions.MOST_CHARACTERS
    for field, text in _texts(obj):
        left -= len(text)
        if left < 0:
            return
        required = field.endswith(".current")
        if (text or required) and (why := problem(text)):
            yield Fault(field, why, text)


def _many(obj: WithSpec[_Applying]) -> Iterator[Fault]:
    try:
        expressions.require_few(text for _, text in _texts(obj))
    except StalledError as exc:
        yield Fault("spec.healthCheckExprs", str(exc))


RULES: Final[tuple[Rule[WithSpec[_Applying]], ...]] = (
    Rule(
        name="cel-expression",
        fields=(
            "spec.healthCheckExprs[].current",
            "spec.healthCheckExprs[].failed",
            "spec.healthCheckExprs[].inProgress",
            "spec.dependsOn[].readyExpr",
        ),
        demands="it compiles as CEL, has at most 4096 characters and calls only what exists",
        remedy="see docs/kustomizations.md",
        find=_invalid,
    ),
    Rule(
        name="cel-many",
        fields=("spec.healthCheckExprs[]", "spec.dependsOn[].readyExpr"),
        demands=(
            f"there are at most {expressions.MOST}, with {expressions.MOST_CHARACTERS} characters"
            " in all"
        ),
        remedy="use fewer",
        find=_many,
    ),
)
