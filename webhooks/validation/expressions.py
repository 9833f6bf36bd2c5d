"""Rules for CEL expressions: a worker of the engine compiles them, and the answers are cached.

Compiling takes up to a millisecond per thousand characters, so the length per object is limited.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from crds.kustomize_parts import CustomHealthCheck
from toolkit.errors import PenstockError, StalledError
from toolkit.expressions import expression as expressions
from toolkit.expressions.expression import Expression
from toolkit.objects import Json, dig
from toolkit.policy import fieldpaths
from webhooks.validation.rule import Fault, Judged, Judges, Rule, WithSpec

Make = Callable[[str], Expression]
"""Makes the expression of a text: with the variables and the result that its field has."""


class _Dependency(Protocol):
    @property
    def ready_expr(self) -> str: ...


class _Applying(Protocol):
    @property
    def health_check_exprs(self) -> Sequence[CustomHealthCheck]: ...
    @property
    def depends_on(self) -> Sequence[_Dependency]: ...


def judged(name: str, fields: Mapping[str, Make], *, remedy: str, counted: bool = False) -> Judged:
    """Return the rule that the texts at these fields compile; ``[]`` follows the name of a list.

    ``counted`` tells that another rule refuses too many of them.
    """
    rule: Rule[Any] = Rule(
        name=name,
        fields=tuple(fields),
        demands=f"it compiles as CEL, has at most {expressions.LONGEST} characters and names only"
        " what exists",
        remedy=remedy,
        find=lambda _: iter(()),
    )
    return Judged(rule=rule, find=partial(_find, fields, counted=counted))


async def _find(
    fields: Mapping[str, Make], judges: Judges, obj: Json, *, counted: bool
) -> Sequence[Fault]:
    found = list(_texts(fields, obj))
    if not found:
        return ()
    try:
        expressions.require_few(each.text for _, each in found)
    except StalledError as exc:
        return () if counted else (Fault(found[0][0], str(exc)),)
    try:
        namespace = str(dig(obj, "metadata", "namespace", default=""))
        problems = await judges.evaluates.problems(namespace, [each for _, each in found])
    except StalledError as exc:
        return (Fault(found[0][0], str(exc)),)
    except PenstockError as exc:
        return (Fault(found[0][0], f"it could not be compiled: {exc}"),)
    return [
        Fault(field, why, each.text)
        for (field, each), why in zip(found, problems, strict=True)
        if why
    ]


def _texts(fields: Mapping[str, Make], obj: Json) -> Iterator[tuple[str, Expression]]:
    for path, make in fields.items():
        for field, text in fieldpaths.values(obj, path):
            if isinstance(text, str) and (text or path.endswith(".current")):
                yield field, make(text)


def _any_field(text: str) -> Expression:
    return Expression(text=text)


def _dependency(text: str) -> Expression:
    return Expression(text=text, variables=("self", "dep"))


def _many(obj: WithSpec[_Applying]) -> Iterator[Fault]:
    texts = [each.ready_expr for each in obj.spec.depends_on]
    for check in obj.spec.health_check_exprs:
        texts += [check.current, check.failed, check.in_progress]
    try:
        expressions.require_few(texts)
    except StalledError as exc:
        yield Fault("spec.healthCheckExprs", str(exc))


JUDGED: Final = judged(
    "cel-expression",
    {
        "spec.healthCheckExprs[].current": _any_field,
        "spec.healthCheckExprs[].failed": _any_field,
        "spec.healthCheckExprs[].inProgress": _any_field,
        "spec.dependsOn[].readyExpr": _dependency,
    },
    remedy="see docs/kustomizations.md",
    counted=True,
)
RULES: Final[tuple[Rule[WithSpec[_Applying]], ...]] = (
    JUDGED.rule,
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
