"""Verify that an artifact has a Notary Project signature that satisfies its trust policy.

The steps are numbered in ``notationsteps``; ``notationjudge`` has those for one envelope.

A signature that a policy only tolerates proves nothing, and neither does level ``skip``: the proof
is ``tolerated``, and the search for a better signature continues. The only exception is a
revocation status that could not be determined, if the policy only logs that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from toolkit.errors import TransientError
from toolkit.native.pool import (
    WorkerDiedError,
    WorkerPool,
    WorkersBusyError,
    WorkerTimeoutError,
)
from toolkit.remote.oci.errors import RegistryError
from toolkit.verify.notation import judge as notationjudge
from toolkit.verify.notation.document import Statement
from toolkit.verify.notation.judge import Failure, Judge, Result, Revocations, Status, Validation
from toolkit.verify.notation.policy import Policy
from toolkit.verify.notation.steps import Step
from toolkit.verify.signature import FACT, Proof, Signer, VerificationError
from toolkit.verify.subject import Subject, refusing

if TYPE_CHECKING:
    from toolkit.remote.oci.oci import Descriptor, Manifest

__all__ = ["Policy", "RevocationUnknownError", "verify"]

SIGNATURE: Final = "application/vnd.cncf.notary.signature"
ENVELOPES: Final = ("application/jose+json", "application/cose")
MAX_SIGNATURES: Final = 10
"""Limit of signatures that are read; a valid one must be among them."""
MAX_ENVELOPE: Final = 1 << 20
"""Limit in bytes; an envelope with a chain and a timestamp has about ten thousand."""

_UNTOLD_FRESHNESS: Final = timedelta(minutes=10)
_LONGEST: Final = 400
_SHOWN: Final = 3
_TIMESTAMP: Final = "authenticTimestamp"
_AUTHORITY: Final = "notary.x509.signingAuthority"
_SIGNED_AT: Final = f"{FACT}signed-at"


class RevocationUnknownError(TransientError):
    """Nothing was refuted, but whether a certificate is revoked could not be found out."""

    default_reason: ClassVar[str] = "VerificationError"


async def verify(
    subject: Subject, policy: Policy, *, pool: WorkerPool, flow: str, revocations: Revocations
) -> Proof:
    """Return the proof for the subject; ``pool`` is one of ``calls.start``.

    ``flow`` is that of ``WorkerPool.call``. The caller sets a deadline.

    Raises:
        VerificationError: no signature satisfies the policy; it has the failed step.
        RevocationUnknownError: a signature would, but a revocation server did not answer.
        RegistryError: the registry could not be read.
    """
    statement, name = policy.applicable(str(subject.repository))  # (1)
    if statement.skips:
        return _skipped(subject, statement)
    with refusing(Step.FOUND):  # (2)
        found = await subject.store.referrers(
            subject.repository, subject.digest, artifact_type=SIGNATURE
        )
        if not found:
            raise VerificationError("the artifact is not signed", step=Step.FOUND)
        descriptor = await _described(subject)
    question = {
        "policy": policy.for_engine(),
        "certificates": dict(policy.stores),
        "reference": f"{name}@{subject.digest}",
        "descriptor": descriptor,
    }
    judge = Judge(pool=pool, flow=flow, revocations=revocations, question=question)
    verdicts = _Verdicts(total=len(found))
    for signature in found[:MAX_SIGNATURES]:
        try:
            media_type, envelope = await _envelope(subject, signature)  # (3)
            result = await judge.judge(media_type, envelope)  # (4 to 9)
            proof = _proof(result, statement, subject)
        except VerificationError as exc:
            if exc.step == Step.POLICY:
                raise
            verdicts.refused.append((signature.digest, exc))
            continue
        except _UNDECIDED as exc:
            verdicts.undecided.append(exc)
            continue
        if not proof.tolerated:
            return proof
        verdicts.tolerated = verdicts.tolerated or proof
    return verdicts.conclude()


@dataclass(slots=True, kw_only=True)
class _Verdicts:
    """The results for signatures that are not valid."""

    total: int
    refused: list[tuple[str, VerificationError]] = field(default_factory=list)
    undecided: list[TransientError] = field(default_factory=list)
    tolerated: Proof | None = None

    def conclude(self) -> Proof:
        """Return a tolerated proof, or raise the error that represents all results."""
        if self.tolerated is not None:
            return self.tolerated
        if self.undecided:
            raise self.undecided[0]
        step = max(error.step for _, error in self.refused)
        if self.total == 1:
            finding = self.refused[0][1].finding
            raise VerificationError(f"the signature is refused: {finding}", step=step)
        told = "; ".join(
            f"{digest[:19]}…: {error.finding}" for digest, error in self.refused[:_SHOWN]
        )
        seen = len(self.refused)
        looked_at = f", of which {seen} were checked" if self.total > seen else ""
        raise VerificationError(
            f"none of {self.total} signatures is valid{looked_at}: {told}", step=step
        )


async def _described(subject: Subject) -> dict[str, Any]:
    """Return the descriptor that must be signed; the manifest has its size and type."""
    manifest = await subject.store.manifest(subject.repository, subject.digest)
    return {
        "mediaType": manifest.media_type,
        "digest": subject.digest,
        "size": manifest.descriptor.size,
    }


async def _envelope(subject: Subject, signature: "Descriptor") -> tuple[str, bytes]:
    """(3) Return media type and bytes of the one envelope of a signature."""
    with refusing(Step.READABLE):
        manifest = await subject.store.manifest(subject.repository, signature.digest)
        layer = _layer(manifest, subject)
        content = await subject.store.read_blob(subject.repository, layer, limit=MAX_ENVELOPE)
    return layer.media_type, content


def _layer(manifest: "Manifest", subject: Subject) -> "Descriptor":
    config = manifest.config.media_type if manifest.config else ""
    if SIGNATURE not in {manifest.artifact_type, config}:
        raise _unreadable("it is not a signature of the Notary Project")
    if manifest.subject is None or manifest.subject.digest != subject.digest:
        other = manifest.subject.digest if manifest.subject else "nothing"
        raise _unreadable(f"it refers to {other[:_LONGEST]}")
    if len(manifest.layers) != 1:
        raise _unreadable(f"it has {len(manifest.layers)} envelopes instead of one")
    layer = manifest.layers[0]
    if layer.media_type not in ENVELOPES:
        raise _unreadable(f"envelopes of type '{layer.media_type[:_LONGEST]}' are not known")
    if layer.size > MAX_ENVELOPE:
        raise _unreadable(f"its envelope is larger than {MAX_ENVELOPE >> 20} MiB")
    return layer


def _unreadable(message: str) -> VerificationError:
    return VerificationError(message, step=Step.READABLE)


_UNDECIDED: Final = (
    RegistryError,
    RevocationUnknownError,
    WorkersBusyError,
    WorkerTimeoutError,
    WorkerDiedError,
)
_STEPS: Final[Mapping[str, Step]] = {
    # the engine's name of a failure: the step
    "integrity": Step.INTEGRITY,
    "attributes": Step.INTEGRITY,
    "plugin": Step.INTEGRITY,
    "authenticity": Step.AUTHENTICITY,
    "expiry": Step.EXPIRY,
    "authenticTimestamp": Step.TIMESTAMP,
    "revocation": Step.REVOCATION,
    "payload": Step.ARTIFACT,
}


def _proof(result: Result, statement: Statement, subject: Subject) -> Proof:
    """Return the proof for a result."""
    if result.failure is not None:
        raise _refusal(result, result.failure)
    if result.signer is None or not result.validations:
        raise VerificationError("the engine proved nothing", step=Step.INTEGRITY)
    failed = result.tolerated()
    unknown = [one for one in failed if one.type == "revocation" and result.is_unknown()]
    fingerprint = f"SHA256:{result.signer.fingerprint}"
    signer = Signer(identity=result.signer.subject, fingerprint=fingerprint)
    facts = _facts(result.signer, statement, failed)
    if len(failed) > len(unknown):
        return Proof(
            signer=signer,
            message=_ignored(subject, statement, failed),
            facts=facts,
            tolerated=True,
            fresh_until=_fresh_until(result, soon=bool(unknown)),
        )
    # Without a trusted timestamp, the time is only the claim of the signer.
    vouched = result.signer.scheme == _AUTHORITY or _timestamped(result.signer, statement, failed)
    when = f"{'at' if vouched else 'dated'} {facts[_SIGNED_AT]}"
    note = f"; {_told(result.revocation)}" if unknown else ""
    return Proof(
        signer=signer,
        message=f"verified signature of {subject} by {signer}, {when}{note}",
        facts=facts,
        fresh_until=_fresh_until(result, soon=bool(unknown)),
    )


def _refusal(result: Result, failure: Failure) -> VerificationError | RevocationUnknownError:
    step = _STEPS.get(failure.step, Step.INTEGRITY)
    message = _short(failure.message)
    if step in {Step.TIMESTAMP, Step.REVOCATION}:
        message = "; ".join(filter(None, (message, _told(result.revocation))))
        if result.is_unknown():
            return RevocationUnknownError(f"step {step}: {message}")
    return VerificationError(message, step=step)


def _skipped(subject: Subject, statement: Statement) -> Proof:
    return Proof(
        signer=Signer(identity="", fingerprint=""),
        message=f"the signature of {subject} is not verified: statement '{statement.name}' of the "
        "trust policy has level 'skip'",
        facts={
            f"{FACT}method": "notation",
            f"{FACT}policy": statement.name,
            f"{FACT}level": "skip",
        },
        tolerated=True,
    )


def _ignored(subject: Subject, statement: Statement, failed: Iterable[Validation]) -> str:
    what = "; ".join(f"{one.type}: {_short(one.error)}" for one in failed)
    return (
        f"the signature of {subject} proves nothing, and statement '{statement.name}' of the "
        f"trust policy, level {statement.strictness()}, lets that pass: {what}"
    )


def _told(statuses: Iterable[Status]) -> str:
    """Return the problems of certificates, and the servers that did not answer."""
    told = [
        f"{one.subject} is {one.status}"
        + "".join(f", {_short(error)}" for error in one.errors[:_SHOWN])
        for one in statuses
        if one.status in {"unknown", "revoked"}
    ]
    return "revocation: " + "; ".join(told) if told else ""


def _facts(
    signer: notationjudge.Signer, statement: Statement, failed: Iterable[Validation]
) -> dict[str, str]:
    proven = signer.timestamp if _timestamped(signer, statement, failed) else None
    signed_at = proven or signer.signing_time
    facts = {
        "method": "notation",
        "identity": signer.subject,
        "issuer": signer.issuer,
        "fingerprint": f"SHA256:{signer.fingerprint}",
        "policy": statement.name,
        "level": statement.level,
    }
    return {
        **{FACT + name: value for name, value in facts.items()},
        _SIGNED_AT: signed_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _timestamped(
    signer: notationjudge.Signer, statement: Statement, failed: Iterable[Validation]
) -> bool:
    demanded = statement.demands_timestamp and signer.timestamp is not None
    return demanded and all(one.type != _TIMESTAMP for one in failed)


def _fresh_until(result: Result, *, soon: bool) -> datetime | None:
    if not soon:
        return result.fresh_until
    again = datetime.now(UTC) + _UNTOLD_FRESHNESS
    return min(again, result.fresh_until) if result.fresh_until else again


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
