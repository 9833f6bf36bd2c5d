"""Judging in workers: what they answer and raise, and what it means if they do not."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

import pytest

from tests.testdata.signatures.generate import Author
from toolkit.errors import TransientError
from toolkit.remote.git.objects import Signed
from toolkit.remote.git.wire import Checkout
from toolkit.verify import gitsignatures
from toolkit.verify.gitsignatures import GitSignatures
from toolkit.verify.signature import VerificationError, VerificationModeError

if TYPE_CHECKING:
    from toolkit.native.pool import WorkerPool

PAYLOAD = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nwhat was signed\n"


@pytest.fixture
async def signatures() -> AsyncIterator[GitSignatures]:
    pool = gitsignatures.start()
    yield GitSignatures(pool)
    await pool.close()


def checkout(author: Author) -> Checkout:
    signed = Signed(payload=PAYLOAD, signature=author.sign(PAYLOAD))
    return Checkout(
        revision="main@sha1:4b825dc",
        commit="4b825dc",
        subject="",
        author="",
        commit_signature=signed,
        tag=None,
    )


@pytest.mark.parametrize("name", ["ed25519", "ssh-ed25519"])
async def test_a_proof_comes_back_whole(
    signatures: GitSignatures, authors: dict[str, Author], name: str
) -> None:
    author = authors[name]
    keys = {"a.sshpub" if name.startswith("ssh") else "a.asc": author.public}

    proof = await signatures.verify(checkout(author), mode="HEAD", keys=keys, flow="team")

    assert proof.facts["verify.penstock.dev/method"] == "git"
    assert proof.signer.fingerprint in proof.message


async def test_skipped_keys_are_in_the_message_of_a_proof(
    signatures: GitSignatures, authors: dict[str, Author]
) -> None:
    keys = {"a.asc": b"nonsense", "b.asc": authors["ed25519"].public}

    proof = await signatures.verify(
        checkout(authors["ed25519"]), mode="HEAD", keys=keys, flow="team"
    )

    assert proof.message.endswith(
        "; skipped keys: 'a.asc': it holds no OpenPGP public key, or a damaged one"
    )


async def test_a_refusal_comes_back_with_reason_and_step(
    signatures: GitSignatures, authors: dict[str, Author]
) -> None:
    keys = {"a.asc": authors["stranger"].public}

    with pytest.raises(VerificationError, match="no trusted OpenPGP key") as caught:
        await signatures.verify(checkout(authors["ed25519"]), mode="HEAD", keys=keys, flow="team")

    assert (caught.value.reason, caught.value.step) == ("InvalidCommitSignature", 5)


async def test_a_mode_that_cannot_be_met_comes_back_as_such(
    signatures: GitSignatures, authors: dict[str, Author]
) -> None:
    with pytest.raises(VerificationModeError, match="names none"):
        await signatures.verify(checkout(authors["ed25519"]), mode="Tag", keys={}, flow="team")


async def test_what_cannot_be_judged_in_time_is_refused(
    signatures: GitSignatures, authors: dict[str, Author]
) -> None:
    hasty = GitSignatures(signatures._pool, seconds=0.0)

    with pytest.raises(VerificationError, match="could not be judged"):
        await hasty.verify(checkout(authors["ed25519"]), mode="HEAD", keys={}, flow="team")


@pytest.mark.parametrize(
    "answer", [b"", b"\x91" * 5000, b"\x80", TransientError("later"), OSError("no process")]
)
async def test_whatever_a_worker_answers_that_is_no_proof_is_a_refusal(
    authors: dict[str, Author], answer: bytes | Exception
) -> None:
    class Pool:
        async def call(self, *_: object, **__: object) -> bytes:
            if isinstance(answer, Exception):
                raise answer
            return answer

    with pytest.raises(VerificationError, match="could not be judged"):
        await GitSignatures(cast("WorkerPool", Pool())).verify(
            checkout(authors["ed25519"]), mode="HEAD", keys={}, flow="team"
        )
