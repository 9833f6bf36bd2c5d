"""The frames of one reply, sent together where they come together.

Each write to a worker wakes it. Most answers of an API server are complete when their head is, so
head, body and end are one write. What takes longer, as a watch does, is sent after a moment.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from toolkit.native import questions
from toolkit.native.questions import Reply

_MOMENT: Final = 0.005
"""Seconds that a frame waits for the next one."""
_TOGETHER: Final = 64 << 10
"""Bytes that are not held any longer."""


class Frames:
    """The reply to one question; ``send`` writes to the worker."""

    def __init__(self, number: int, send: Callable[[bytes], None]) -> None:
        self._number = number
        self._send = send
        self._held = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._dropped = False

    def add(self, kind: Reply, data: bytes = b"") -> None:
        """Send a frame, at the latest in a moment."""
        if self._dropped:
            return
        self._held += questions.reply(kind, self._number, data)
        if len(self._held) >= _TOGETHER or kind in {Reply.END, Reply.BROKEN}:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_MOMENT, self._flush)

    def drop(self) -> None:
        """Stop sending, because the receiver is gone."""
        self._dropped = True
        self._held.clear()
        self._flush()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held:
            self._send(bytes(self._held))
            self._held.clear()
