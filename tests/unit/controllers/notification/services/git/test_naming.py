"""The id of a commit status: an expression of the Provider gives it, within a budget."""

import msgspec
import pytest

from controllers.notification.services.git import commit, naming
from controllers.notification.services.service import Target, UnsuitableError
from tests.fakes.evaluating import NoEvaluator
from tests.fakes.notices import event
from toolkit.expressions.evaluator import Evaluator

SHA = "a" * 40


def target(expression: str) -> Target:
    return Target(
        type="github",
        namespace="apps",
        name="p",
        uid="u-1",
        address="https://github.com/org/app",
        status_expression=expression,
    )


async def test_the_expression_gives_the_name_of_the_state(evaluates: Evaluator) -> None:
    notice = event(revision=f"main@sha1:{SHA}")
    given = target("event.involvedObject.name + '/' + provider.metadata.uid")

    named = await naming.named(evaluates, notice, given)

    found = commit.state(notice, named)
    assert found is not None
    assert found.name == f"{notice.event.involved_object.name}/u-1"


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("event.metadata.missing", "does not yield a text"),
        ("event.metadata", "does not yield a text"),
        ("['" + "y" * 400 + "']" + ".map(x,x+x+x+x+x)" * 10 + "[0]", "too expensive"),
        ("1 + 1", "yields int"),
    ],
)
async def test_an_expression_without_a_text_refuses_the_event(
    evaluates: Evaluator, expression: str, why: str
) -> None:
    with pytest.raises(UnsuitableError, match=f"spec.commitStatusExpr: .*{why}"):
        await naming.named(evaluates, event(revision=f"main@sha1:{SHA}"), target(expression))


async def test_an_event_about_no_commit_evaluates_nothing() -> None:
    given = target("event.metadata.x")

    assert await naming.named(NoEvaluator(), event(revision=""), given) == given


async def test_an_event_of_progress_evaluates_nothing() -> None:
    given = target("event.metadata.x")
    told = event(revision=f"main@sha1:{SHA}")
    progress = msgspec.structs.replace(told.event, reason="Progressing")
    notice = msgspec.structs.replace(told, event=progress)

    assert await naming.named(NoEvaluator(), notice, given) == given
    assert commit.state(notice, given) is None
