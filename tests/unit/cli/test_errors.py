"""What is told beside a message: a remedy where one is known, and none that would not help."""

from cli import errors
from toolkit.kube.errors import ForbiddenError, SignInError


def test_a_missing_right_is_to_be_asked_for() -> None:
    told = errors.explain(ForbiddenError("cannot list resource"))

    first, remedy = told.splitlines()
    assert first == "cannot list resource"
    assert remedy == "  ask an administrator for this right, or choose another user with --context"


def test_a_program_without_credentials_is_to_be_signed_in_with_again() -> None:
    told = errors.explain(SignInError("the program issued no credentials"))

    assert told.endswith("\n  sign in with that program again, then repeat the command")


def test_a_denial_of_the_gate_has_its_own_remedy() -> None:
    denial = 'admission webhook "x" denied the request: apply this grant'

    assert errors.explain(ForbiddenError(denial)) == denial
