"""Verify one envelope: steps 4 to 9 of a Notary Project proof (``notationsteps``).

Users who may push can write any envelope, so the engine parses it in a worker. The engine has no
network: this process sends the requests of a revocation check, and the envelope is verified again
with the answers.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from toolkit.native import calls
from toolkit.native.pool import WorkerMemoryError, WorkerPool
from toolkit.verify.notation.revocation import MAX_REQUESTS, Answer, Need
from toolkit.verify.notation.steps import Step, unusable
from toolkit.verify.signature import VerificationError


class Revocations(Protocol):
    """Checks the revocation of certificates (`notationrevocation.Responders`)."""

    async def ask(self, needs: Sequence[Need]) -> Sequence[Answer]:
        """Return an answer for each need."""
        ...

    def keep(self, answers: Mapping[Need, Answer], *, until: datetime) -> None:
        """Keep answers that were of use."""
        ...


class Failure(msgspec.Struct):
    """Which step refused the envelope, and why."""

    step: str
    message: str


class Validation(msgspec.Struct):
    """The result of one validation of the policy; an error that is only logged refuses nothing."""

    type: str
    action: str
    error: str = ""


class Signer(msgspec.Struct, rename="camel"):
    """The signer in the envelope; it is only proved if authenticity was validated."""

    subject: str
    issuer: str
    fingerprint: str
    scheme: str
    signing_time: datetime
    expiry: datetime | None = None
    timestamp: datetime | None = None


class Status(msgspec.Struct):
    """The status of a certificate: ok, nonRevokable, unknown or revoked."""

    subject: str
    status: str
    errors: list[str] = []


class Result(msgspec.Struct, rename="camel"):
    """The engine's answer (``engine/internal/notation/result.go``)."""

    failure: Failure | None = None
    validations: list[Validation] = []
    signer: Signer | None = None
    revocation: list[Status] = []
    needs: list[Need] = []
    fresh_until: datetime | None = None

    def tolerated(self) -> list[Validation]:
        """Return the failed validations that were only logged."""
        return [one for one in self.validations if one.error]

    def is_unknown(self) -> bool:
        """Tell whether the revocation of a certificate is unknown, and none is known as revoked."""
        found = {one.status for one in self.revocation}
        return "unknown" in found and "revoked" not in found


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Verifies envelopes with the engine, and answers its questions about revocation.

    ``flow`` is that of ``WorkerPool.call``.
    """

    pool: WorkerPool
    flow: str
    revocations: Revocations
    question: Mapping[str, Any]

    async def judge(self, media_type: str, envelope: bytes) -> Result:
        """(4 to 9) Return the result of the engine when it has all answers."""
        answers: dict[Need, Answer] = {}
        asked = {"mediaType": media_type, "envelope": b64encode(envelope).decode()}
        for _ in range(_ROUNDS):
            request = {**self.question, **asked, "fetched": list(answers.values())}
            result = await self._call(request)
            needs = result.needs
            if not needs:
                if result.fresh_until and not result.is_unknown():
                    self.revocations.keep(answers, until=result.fresh_until)
                return result
            if len(answers) + len(needs) > MAX_REQUESTS:
                break
            answers |= zip(needs, await self.revocations.ask(needs), strict=True)
            if sum(len(answer.content) for answer in answers.values()) > _MAX_ANSWERS:
                break
        raise VerificationError(
            f"finding out whether its certificates are revoked takes more than {MAX_REQUESTS} "
            f"requests or {_MAX_ANSWERS * 3 // 4 >> 20} MiB",
            step=Step.REVOCATION,
        )

    async def _call(self, request: Mapping[str, Any]) -> Result:
        try:
            answer = await calls.call(
                self.pool, "notation.verify", request, flow=self.flow, timeout=_SECONDS
            )
        except calls.EngineError as exc:
            if exc.code in _POLICY_CODES:
                raise unusable(str(exc)) from exc
            raise VerificationError(str(exc)[:_LONGEST], step=Step.INTEGRITY) from exc
        except WorkerMemoryError as exc:
            raise VerificationError(str(exc), step=Step.INTEGRITY) from exc
        return msgspec.convert(answer, Result)


_POLICY_CODES: Final = ("InvalidPolicy", "InvalidCertificate", "NoApplicablePolicy", "Skipped")
_ROUNDS: Final = 8
"""OCSP, list and delta list, for the timestamp's chain and then for the signer's."""
_SECONDS: Final = 20.0
_MAX_ANSWERS: Final = 24 << 20
"""Characters of base64; reading a list takes twenty times its size of a worker's memory."""
_LONGEST: Final = 400
