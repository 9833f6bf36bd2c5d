"""Data keys that the engine decrypts: with OpenPGP keys, and post-quantum age identities.

A request contains the secret keys and all encrypted data keys for them. It goes through a pipe to a
worker of a separate pool, so no tenant's build runs in a process that had keys. The worker keeps
nothing between requests and is killed at the deadline.
"""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from toolkit.decrypt import KEYS
from toolkit.decrypt.keys import TITLES, Recipient, Refusal
from toolkit.errors import TransientError
from toolkit.native import calls, cores
from toolkit.native.pool import WorkerPool
from toolkit.skipped import Skipped

SECONDS: Final = 5.0
"""Timeout of a request. A document with ten recipients takes milliseconds."""

MEMORY_LIMIT: Final = 256 << 20
"""Bytes for a worker."""

Left = Mapping[str, Mapping[str, bytes]]
"""Secret keys by the list of the block that they open, then by entry of their Secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The results for encrypted data keys, and the unusable keys."""

    answers: dict[Recipient, bytes | Refusal] = field(default_factory=dict, repr=False)
    skipped: tuple[Skipped, ...] = ()


def start() -> WorkerPool:
    """Return a pool of workers that only decrypt data keys."""
    return calls.start(size=cores.available(), memory_limit=MEMORY_LIMIT)


class EngineKeys:
    """Opens data keys in a pool of ``start``."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool

    async def open(self, left: Left, recipients: Sequence[Recipient], *, flow: str) -> Opened:
        """Try the keys of each kind on the recipients of that kind; failures are answers, too.

        ``flow`` is that of ``WorkerPool.call``.
        """
        tried = await asyncio.gather(
            *(
                self._open(
                    kind.name,
                    kind.operation,
                    left[kind.name],
                    [recipient for recipient in recipients if recipient.kind == kind.name],
                    flow,
                )
                for kind in KEYS
                if left.get(kind.name)
            )
        )
        return Opened(
            answers={key: value for opened in tried for key, value in opened.answers.items()},
            skipped=tuple(entry for opened in tried for entry in opened.skipped),
        )

    async def _open(
        self,
        kind: str,
        operation: str,
        keys: Mapping[str, bytes],
        recipients: Sequence[Recipient],
        flow: str,
    ) -> Opened:
        request = {
            "keys": [{"name": name, "data": data} for name, data in keys.items()],
            "messages": [recipient.encrypted for recipient in recipients],
        }
        try:
            found = await calls.call(self._pool, operation, request, flow=flow, timeout=SECONDS)
        except TransientError as exc:
            refusal = Refusal(
                message=f"the {TITLES[kind]} keys could not be tried: {exc}", passing=True
            )
            return Opened(answers=dict.fromkeys(recipients, refusal))
        answers = zip(recipients, found["opened"], strict=True)
        return Opened(
            answers={
                recipient: base64.b64decode(opened["data"]) if opened else Refusal()
                for recipient, opened in answers
            },
            skipped=tuple(Skipped(**entry) for entry in found["skipped"]),
        )
