"""Types for all signatures: signer, proof, and the error of a failed verification."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import ClassVar, Final

from toolkit.errors import StalledError, TransientError
from toolkit.skipped import Skipped, told

FACT: Final = "verify.penstock.dev/"
"""Facts of a proof are named ``verify.penstock.dev/<name>`` wherever they are shown."""

_NO_FACTS: Final[Mapping[str, str]] = MappingProxyType({})


class VerificationError(TransientError):
    """A signature is missing, invalid, or not by a trusted key or identity.

    It is retried, because a new revision may be signed. ``reason`` is the reason of the condition.
    ``step`` is the number of the failed step, at the beginning of the message; 0 if the verifier
    does not number its steps. ``skipped`` are unusable keys, at the end of the message.
    """

    default_reason: ClassVar[str] = "VerificationError"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        step: int = 0,
        skipped: Iterable[Skipped | str] = (),
    ) -> None:
        finding = f"{message}{told(skipped)}"
        super().__init__(f"step {step}: {finding}" if step else finding, reason=reason)
        self.step = step
        self.finding = finding


class VerificationModeError(StalledError):
    """The spec demands a signature of something that it does not name."""

    default_reason: ClassVar[str] = "InvalidVerificationMode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """The signer: the name in the key, and the fingerprint of the key.

    ``skipped`` are unusable keys of the same Secret, each with the reason.
    """

    identity: str
    fingerprint: str
    skipped: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.identity} ({self.fingerprint})" if self.identity else self.fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The result of a verification; ``message`` is its text in a condition.

    ``facts`` go into the artifact's metadata under names that begin with `FACT`. ``tolerated``
    means that a policy ignores a failure: nothing was proved, and it is never shown as success.
    After ``fresh_until`` the signature must be verified again; with None the caller decides when.
    """

    signer: Signer
    message: str
    facts: Mapping[str, str] = field(default_factory=lambda: _NO_FACTS)
    tolerated: bool = False
    fresh_until: datetime | None = None
