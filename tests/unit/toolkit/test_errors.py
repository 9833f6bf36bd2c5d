"""An error keeps all that it knows when its message is put into a context."""

from toolkit.errors import Told, TransientError, WaitingError
from toolkit.native.calls import EngineError


def test_context_stands_before_the_message_and_the_rest_stays() -> None:
    error = WaitingError("not there", reason="Missing", retry_after=7, told=Told(event=""))

    found = error.within("cannot read the chart")

    assert str(found) == "cannot read the chart: not there"
    assert (found.reason, found.retry_after, found.told) == ("Missing", 7, Told(event=""))
    assert str(error) == "not there"


def test_context_may_give_another_reason() -> None:
    assert TransientError("a").within("b", reason="Other").reason == "Other"


def test_errors_that_take_more_than_a_message_have_a_context_too() -> None:
    found = EngineError("it broke", code="Failed", detail=1).within("loading")

    assert isinstance(found, EngineError)
    assert (str(found), found.code, found.detail) == ("loading: it broke", "Failed", 1)
