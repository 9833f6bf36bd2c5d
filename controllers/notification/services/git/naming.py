"""The id of a commit status that ``spec.commitStatusExpr`` of a Provider gives."""

from dataclasses import replace
from typing import Final

from controllers.notification.events.matching import Notice
from controllers.notification.services.git import commit
from controllers.notification.services.service import Target, UnsuitableError
from toolkit.errors import StalledError
from toolkit.expressions import expression as expressions
from toolkit.expressions.evaluator import Case, Evaluates, Step
from toolkit.expressions.expression import Expression

_VARIABLES: Final = ("event", "alert", "provider")


async def named(evaluates: Evaluates, notice: Notice, target: Target) -> Target:
    """Return the target with the id for this notice, if an expression gives it.

    Raises:
        UnsuitableError: the expression has no valid id as result, or costs too much.
    """
    if not target.status_expression or not commit.reported(notice):
        return target
    expression = Expression(text=target.status_expression, variables=_VARIABLES, result="string")
    namespace, _, name = notice.alert.partition("/")
    case = Case(
        given={
            "event": notice.event,
            "alert": {"metadata": {"namespace": namespace, "name": name}},
            "provider": {
                "metadata": {"namespace": target.namespace, "name": target.name, "uid": target.uid}
            },
        },
        steps=(Step(expression=expression),),
    )
    try:
        ((outcome,),) = await evaluates.evaluate(target.namespace, [case], doubles=True)
        return replace(target, status_id=expressions.text_of(expression, outcome))
    except StalledError as exc:
        raise UnsuitableError(f"spec.commitStatusExpr: {exc}") from exc
