"""Signatures of Git objects, verified in workers (``toolkit.verify.gitworker``).

If a worker fails, dies or takes too long, the signature counts as invalid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from toolkit.errors import PenstockError
from toolkit.native import cores
from toolkit.native.kind import WorkerKind
from toolkit.native.pool import WorkerPool, WorkersBusyError
from toolkit.remote.git.wire import Checkout
from toolkit.verify.signature import Proof, VerificationError, VerificationModeError

KIND: Final = WorkerKind(
    module="toolkit.verify.gitworker",  # It parses untrusted keys and signatures.
    memory_limit=256 << 20,  # keys and signature have less than a megabyte each
    answer_limit=1 << 20,  # An answer has only the signer.
    network=False,
)
SECONDS: Final = 20.0


def start() -> WorkerPool:
    """Return a pool of workers that judge signatures."""
    return WorkerPool(KIND, size=cores.available())


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The arguments of ``toolkit.verify.git.verify``."""

    checkout: Checkout
    mode: str
    keys: Mapping[str, bytes] = field(repr=False)


class GitSignatures:
    """Judges in a pool of ``start``; ``seconds`` bounds each judgement."""

    def __init__(self, pool: WorkerPool, *, seconds: float = SECONDS) -> None:
        self._pool = pool
        self._seconds = seconds

    async def verify(
        self, checkout: Checkout, *, mode: str, keys: Mapping[str, bytes], flow: str
    ) -> Proof:
        """Verify the signatures that the mode requires (``toolkit.verify.git.verify``).

        ``flow`` is that of ``WorkerPool.call``.

        Raises:
            VerificationModeError: the mode needs a tag and the spec names none.
            VerificationError: no trusted key made the signature, or it could not be verified.
            WorkersBusyError: it was not looked at, because no worker was free.
        """
        request = msgspec.msgpack.encode(Request(checkout=checkout, mode=mode, keys=keys))
        try:
            answer = await self._pool.call("verify", request, flow=flow, timeout=self._seconds)
            return msgspec.msgpack.decode(answer, type=Proof)
        except (VerificationError, VerificationModeError, WorkersBusyError):
            raise
        except (PenstockError, msgspec.DecodeError, UnicodeError, RecursionError, OSError) as exc:
            # The messages of these errors may contain the input.
            raise VerificationError(
                f"the signature of commit '{checkout.commit}' could not be judged within"
                f" {self._seconds:g}s and {KIND.memory_limit >> 20} MiB: look for damaged or very"
                " large keys in the secret"
            ) from exc
