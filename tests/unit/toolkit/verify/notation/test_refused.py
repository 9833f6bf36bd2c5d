"""What is refused before the engine is asked, and when it says no or nothing."""

import pytest

from tests.fakes import notary
from tests.fakes.notary import Shelf
from tests.fakes.revocation import Authority, Revocations
from toolkit.native.pool import WorkerPool
from toolkit.verify.notation import document, notation
from toolkit.verify.notation.judge import Judge, Result
from toolkit.verify.notation.steps import Step
from toolkit.verify.signature import VerificationError


def test_large_policy_is_refused_unread() -> None:
    with pytest.raises(VerificationError, match=r"'trustpolicy\.json' is larger than 1 MiB"):
        document.read(b" " * (1 << 20) + b"{}")


def test_result_without_a_signer_proves_nothing() -> None:
    shelf = Shelf()
    (statement,) = document.read(notary.document())

    with pytest.raises(VerificationError, match="the engine proved nothing"):
        notation._proof(Result(), statement, shelf.subject(shelf.artifact()))


@pytest.mark.parametrize(
    ("question", "step"),
    [({"policy": {"version": "0"}}, Step.POLICY), ({"certificates": 7}, Step.INTEGRITY)],
)
async def test_what_the_engine_refuses_is_refused(
    engine_pool: WorkerPool, question: dict[str, object], step: Step
) -> None:
    judge = Judge(
        pool=engine_pool, revocations=Revocations(Authority()), question=question, flow="team"
    )

    with pytest.raises(VerificationError) as caught:
        await judge.judge("application/jose+json", b"{}")

    assert caught.value.step == step
