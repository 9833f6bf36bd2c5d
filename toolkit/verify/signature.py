"""Who signed, what a verification proved, and what a failed one raises; for all signatures."""

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
    """A signature is missing, wrong, or made by nobody who is trusted.

    It is retried, because a new revision may be signed; ``reason`` tells what failed. ``step`` is
    the number of the failed step where the verifier numbers its steps, and leads the message;
    0 where it does not. ``skipped`` are keys that could not be used; they end the message.
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
    """Whose key made a signature: a name as the key carries it, and the key's fingerprint.

    ``skipped`` names the keys beside it that could not be used, each with the reason.
    """

    identity: str
    fingerprint: str
    skipped: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.identity} ({self.fingerprint})" if self.identity else self.fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a verification proved; ``message`` says it in a condition.

    ``facts`` go into the artifact's metadata under names that begin with `FACT`. ``tolerated``
    means that a policy lets a failure pass: nothing was proved, and it is never shown as success.
    After ``fresh_until`` the proof has to be made again; ``None`` leaves that to who keeps it.
    """

    signer: Signer
    message: str
    facts: Mapping[str, str] = field(default_factory=lambda: _NO_FACTS)
    tolerated: bool = False
    fresh_until: datetime | None = None
