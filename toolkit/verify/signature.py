"""Who signed, and what a failed verification raises; shared by all kinds of signatures."""

from dataclasses import dataclass
from typing import ClassVar

from toolkit.errors import TransientError


class VerificationError(TransientError):
    """A signature is missing, wrong, or made by nobody who is trusted.

    It is retried, because a new revision may be signed; ``reason`` tells which step failed.
    """

    default_reason: ClassVar[str] = "VerificationError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """Whose key made a signature: a name as the key carries it, and the key's fingerprint."""

    identity: str
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.identity} ({self.fingerprint})" if self.identity else self.fingerprint
