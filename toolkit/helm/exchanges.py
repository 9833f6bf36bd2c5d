"""Send the requests of an action in a worker, and stream the answers back to it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from toolkit.errors import PenstockError, TransientError
from toolkit.helm.gates import Gate
from toolkit.helm.replies import Frames
from toolkit.native import questions
from toolkit.native.questions import Ask, Drained, Head, Reply, Tell

_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_ASKED: Final = ("Accept", "Content-Type")
"""The only headers that a worker may set; it must not choose the impersonated identity."""
_ANSWERED: Final = ("Content-Type", "Retry-After")
_MAX_OPEN: Final = 64
MAX_ANSWER: Final = 64 << 20
"""Bytes of one answer: ten times a large list. The API server may be a tenant's."""
MAX_ANSWERS: Final = 256 << 20
"""Bytes of all answers to one action."""


class Exchanges:
    """Answers the questions of one action; ``gates`` are the identities that it may use.

    ``count`` is how many requests went out.
    """

    def __init__(self, gates: Mapping[str, Gate]) -> None:
        self._gates = gates
        self._open: dict[int, _Open] = {}
        self._tell: Tell | None = None
        self._drained: Drained | None = None
        self._left = MAX_ANSWERS
        self._cancelled = False
        self._reading = False
        self.count = 0

    def begin(self, tell: Tell, drained: Drained) -> None:
        """Take the way to the worker (``Answering``)."""
        self._tell, self._drained = tell, drained

    def cancel(self) -> None:
        """Ask the action to end early; it still writes down how it ended.

        It is told so while it reads replies: after its first question, which may be yet to come,
        and before its last. At other times, the worker would read it as its next request.
        """
        self._cancelled = True
        if self._reading:
            self._say(questions.reply(Reply.CANCEL))

    def asked(self, question: bytes) -> None:
        """Take a question (``Answering``)."""
        kind, number, data = questions.decode(question)
        if kind is Ask.DONE:
            self._drop_all()
            self._say(questions.reply(Reply.DONE))
            self._reading = False
            return
        if self._cancelled and not self._reading:
            self._say(questions.reply(Reply.CANCEL))
        self._reading = True
        if kind is Ask.SEND:
            self._send(number, data)
        else:
            self._drop(number)

    def waits(self, seconds: float) -> bool:
        """Tell whether an answer has not been complete for so long (``Answering``).

        A watch is such an answer: a hook is waited for.
        """
        before = asyncio.get_running_loop().time() - seconds
        return any(each.since <= before for each in self._open.values())

    async def end(self) -> None:
        """Abandon requests that are still being answered (``Answering``)."""
        self._tell = None
        tasks = tuple(each.task for each in self._open.values())
        self._drop_all()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _send(self, number: int, data: bytes) -> None:
        head, body = questions.decode_send(data)
        gate = self._gates.get(head.identity)
        if number in self._open or len(self._open) >= _MAX_OPEN:
            raise questions.MalformedError("too many requests at once")
        if gate is None or not _plain(head) or not gate.allows(head.method, head.target, body):
            path = head.target.partition("?")[0]
            raise questions.MalformedError(
                f"it asked for {head.method} {path!r} as {head.identity!r}, "
                "which no action may request"
            )
        self.count += 1
        frames = Frames(number, self._say)
        task = asyncio.create_task(self._answer(number, frames, gate, head, body))
        since = asyncio.get_running_loop().time()
        self._open[number] = _Open(task=task, frames=frames, since=since)

    async def _answer(
        self, number: int, frames: Frames, gate: Gate, head: Head, body: bytes
    ) -> None:
        try:
            await self._stream(frames, gate, head, body)
        except PenstockError as exc:
            frames.add(Reply.BROKEN, str(exc).encode())
        else:
            frames.add(Reply.END)
        finally:
            self._open.pop(number, None)

    async def _stream(self, frames: Frames, gate: Gate, head: Head, body: bytes) -> None:
        chosen = {name: head.headers[name][0] for name in _ASKED if head.headers.get(name)}
        async with gate.client.exchange(head.method, head.target, headers=chosen, body=body) as (
            status,
            headers,
            chunks,
        ):
            told = {name: [headers[name]] for name in _ANSWERED if name in headers}
            frames.add(Reply.HEAD, questions.head(status, told))
            await self._pass_on(frames, chunks)

    async def _pass_on(self, frames: Frames, chunks: AsyncIterator[bytes]) -> None:
        left = MAX_ANSWER
        async for chunk in chunks:
            left, self._left = left - len(chunk), self._left - len(chunk)
            if min(left, self._left) < 0:
                most = MAX_ANSWER if left < 0 else MAX_ANSWERS
                raise TransientError(
                    f"the API server sent more than {most >> 20} MiB, which no action reads"
                )
            frames.add(Reply.CHUNK, chunk)
            if self._drained is not None:
                await self._drained()

    def _drop(self, number: int) -> None:
        if found := self._open.pop(number, None):
            found.task.cancel()
            found.frames.drop()

    def _drop_all(self) -> None:
        for number in tuple(self._open):
            self._drop(number)

    def _say(self, frames: bytes) -> None:
        if self._tell is not None:
            self._tell(frames)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """A request that is being answered since a moment of the loop's clock."""

    task: asyncio.Task[None]
    frames: Frames
    since: float


def _plain(head: Head) -> bool:
    return head.method in _METHODS and head.target.startswith("/")
