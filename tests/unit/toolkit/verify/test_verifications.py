"""For whom, for what and for how long proofs and refusals are kept."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.signaturestore import SignatureStore
from toolkit.errors import TransientError
from toolkit.remote.oci.oci import Repository
from toolkit.verify import verifications
from toolkit.verify.signature import Proof, Signer, VerificationError
from toolkit.verify.subject import Subject
from toolkit.verify.verifications import Means, Verifications, Verifier

PROOF = Proof(signer=Signer(identity="ann", fingerprint="1"), message="verified signature")


@dataclass(frozen=True)
class Rule:
    """A policy of which only the trust counts."""

    trust: str = "ann"


@dataclass
class Scene:
    """A verifier that is told what to answer, and a clock that is told the time."""

    answer: Callable[[], Awaitable[Proof]]
    asked: list[tuple[str, str]] = field(default_factory=list)
    time: float = 0.0

    def verifications(self, **options: float) -> Verifications:
        async def verify(subject: Subject, policy: Rule, means: Means | None, flow: str) -> Proof:
            assert means is None
            assert "/" not in flow, "a flow is a namespace"
            self.asked.append((str(subject), policy.trust))
            return await self.answer()

        table = {"test": Verifier(policy=Rule, verify=verify)}
        return Verifications(  # type: ignore[arg-type]
            None, verifiers=table, clock=lambda: self.time, **options
        )


async def proved() -> Proof:
    return PROOF


async def refused() -> Proof:
    raise VerificationError("nobody did", step=5)


async def failed() -> Proof:
    raise TransientError("the registry is away")


def subject(number: int = 0) -> Subject:
    manifest = b'{"schemaVersion": 2, "layers": [], "annotations": {"n": "%d"}}' % number
    return SignatureStore(manifest).subject


async def test_proof_is_kept_for_an_hour() -> None:
    scene = Scene(proved)
    kept = scene.verifications()

    assert await kept.verify(subject(), Rule(), scope="team") is PROOF
    scene.time = verifications.PROOF_SECONDS - 1
    assert await kept.verify(subject(), Rule(), scope="team") is PROOF
    assert len(scene.asked) == 1
    scene.time += 2
    await kept.verify(subject(), Rule(), scope="team")
    assert len(scene.asked) == 2


async def test_proof_is_kept_no_longer_than_it_is_fresh() -> None:
    stale = replace(PROOF, fresh_until=datetime.now(UTC) - timedelta(seconds=1))

    async def answer() -> Proof:
        return stale

    scene = Scene(answer)
    kept = scene.verifications()

    await kept.verify(subject(), Rule(), scope="team")
    await kept.verify(subject(), Rule(), scope="team")

    assert len(scene.asked) == 2


async def test_refusal_is_kept_for_seconds() -> None:
    scene = Scene(refused)
    kept = scene.verifications()

    for _ in range(2):
        with pytest.raises(VerificationError, match="step 5: nobody did") as caught:
            await kept.verify(subject(), Rule(), scope="team")
        assert caught.value.step == 5
    assert len(scene.asked) == 1
    scene.time, scene.answer = verifications.REFUSAL_SECONDS + 1, proved
    assert await kept.verify(subject(), Rule(), scope="team") is PROOF


async def test_refusal_need_not_be_kept() -> None:
    scene = Scene(refused)
    kept = scene.verifications(refusal_seconds=0)

    with pytest.raises(VerificationError):
        await kept.verify(subject(), Rule(), scope="team")
    scene.answer = proved

    assert await kept.verify(subject(), Rule(), scope="team") is PROOF


async def test_error_is_not_kept() -> None:
    scene = Scene(failed)
    kept = scene.verifications()

    with pytest.raises(TransientError, match="away"):
        await kept.verify(subject(), Rule(), scope="team")
    scene.answer = proved

    assert await kept.verify(subject(), Rule(), scope="team") is PROOF


@pytest.mark.parametrize(
    ("subjects", "rules"),
    [
        ([subject(1), subject(2)], [Rule(), Rule()]),
        ([subject(), subject()], [Rule(), Rule(trust="bob")]),
        ([subject(), replace(subject(), repository=Repository("other.test", "app"))], [Rule()] * 2),
    ],
    ids=["digest", "trust", "repository"],
)
async def test_proof_holds_for_nothing_else(subjects: list[Subject], rules: list[Rule]) -> None:
    scene = Scene(proved)
    kept = scene.verifications()

    for one, rule in zip(subjects, rules, strict=True):
        await kept.verify(one, rule, scope="team")

    assert len(scene.asked) == 2


async def test_many_who_ask_at_once_are_answered_by_one_verification() -> None:
    release = asyncio.Event()

    async def answer() -> Proof:
        await release.wait()
        return PROOF

    scene = Scene(answer)
    kept = scene.verifications()

    async with asyncio.TaskGroup() as group:
        waiting = [
            group.create_task(kept.verify(subject(), Rule(), scope="team")) for _ in range(20)
        ]
        await asyncio.sleep(0)
        release.set()

    assert {id(task.result()) for task in waiting} == {id(PROOF)}
    assert len(scene.asked) == 1


async def test_who_gives_up_leaves_the_others_waiting_for_an_answer() -> None:
    release = asyncio.Event()

    async def answer() -> Proof:
        await release.wait()
        return PROOF

    scene = Scene(answer)
    kept = scene.verifications()

    first = asyncio.create_task(kept.verify(subject(), Rule(), scope="team"))
    second = asyncio.create_task(kept.verify(subject(), Rule(), scope="team"))
    await asyncio.sleep(0)
    first.cancel()
    release.set()

    assert await second is PROOF
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_refusals_and_slowness_stay_in_their_scope() -> None:
    scene = Scene(refused)
    kept = scene.verifications()
    with pytest.raises(VerificationError):
        await kept.verify(subject(), Rule(), scope="eve")

    async def never() -> Proof:
        await asyncio.Event().wait()
        raise AssertionError

    scene.answer = never
    hanging = asyncio.create_task(kept.verify(subject(1), Rule(), scope="eve"))
    await asyncio.sleep(0)
    scene.answer = proved

    assert await kept.verify(subject(), Rule(), scope="ann") is PROOF
    assert await kept.verify(subject(1), Rule(), scope="ann") is PROOF
    hanging.cancel()


async def test_proofs_are_shared_by_all_scopes() -> None:
    scene = Scene(proved)
    kept = scene.verifications()

    await kept.verify(subject(), Rule(), scope="ann")
    await kept.verify(subject(), Rule(), scope="bob")

    assert len(scene.asked) == 1


async def test_what_is_kept_is_bounded() -> None:
    scene = Scene(proved)
    kept = scene.verifications()

    for number in range(verifications.CAPACITY + 1):
        await kept.verify(subject(0), Rule(trust=str(number)), scope="team")
    scene.asked.clear()
    await kept.verify(subject(0), Rule(trust=str(verifications.CAPACITY)), scope="team")
    assert not scene.asked
    await kept.verify(subject(0), Rule(trust="0"), scope="team")
    assert len(scene.asked) == 1


async def test_forgetting_makes_all_proofs_anew() -> None:
    scene = Scene(proved)
    kept = scene.verifications()

    await kept.verify(subject(), Rule(), scope="team")
    kept.forget()
    await kept.verify(subject(), Rule(), scope="team")

    assert len(scene.asked) == 2


async def test_what_a_policy_lets_pass_stays_in_its_scope() -> None:
    let_pass = replace(PROOF, tolerated=True)

    async def tolerated() -> Proof:
        return let_pass

    scene = Scene(tolerated)
    kept = scene.verifications()
    assert await kept.verify(subject(), Rule(), scope="eve") is let_pass
    assert await kept.verify(subject(), Rule(), scope="eve") is let_pass
    scene.answer = proved

    assert await kept.verify(subject(), Rule(), scope="ann") is PROOF
    assert len(scene.asked) == 2
