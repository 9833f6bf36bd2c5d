"""One worker process, seen from the event loop.

A protocol on the bare subprocess transport rather than ``asyncio.subprocess``: a killed worker's
unread output would keep a stream paused and its transport open for ever.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from toolkit.native import frames, questions

_KEPT_OUTPUT = 16 << 10


class Link(asyncio.SubprocessProtocol):
    """Sends one request at a time and collects its answer, of at most ``limit`` bytes.

    A worker may only send answers, and questions if a handler is there for them. A worker that
    sends anything else is compromised or broken, and is killed. ``on_closed`` is called once, when
    the process has ended and every pipe is closed.
    """

    def __init__(self, *, on_closed: Callable[["Link"], None], limit: int) -> None:
        self._on_closed = on_closed
        self._limit = limit
        self._transport: asyncio.SubprocessTransport | None = None
        self._closed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting: asyncio.Future[tuple[frames.Status, bytes] | None] | None = None
        self._answering: questions.Answering | None = None
        self._received = bytearray()
        self._output = bytearray()
        self._retirement: asyncio.TimerHandle | None = None
        self._readable = asyncio.Event()
        self._readable.set()
        self.answered = False
        """Whether it has answered once, so that its start is complete."""
        self.fault = ""
        """Why this process killed the worker, if it sent invalid data."""

    async def ask(
        self, op: str, payload: bytes, answering: questions.Answering | None = None
    ) -> tuple[frames.Status, bytes] | None:
        """Return the answer, or ``None`` if the worker ends without one."""
        self._output.clear()
        self._received.clear()
        self._waiting = asyncio.get_running_loop().create_future()
        pipe = self._pipe()
        if pipe is None:
            return None
        self._answering = answering
        pipe.write(frames.encode_request(op, payload))
        pipe.write(payload)
        if answering is None:
            return await self._waiting
        answering.begin(self._tell, self._drained)
        try:
            return await self._waiting
        finally:
            self._answering = None
            await answering.end()

    def kill(self) -> None:
        """Kill the process at once."""
        self.stop_idling()
        if self._transport is not None and self._transport.get_returncode() is None:
            # Not transport.kill(): Popen polls first and may take the exit status from asyncio.
            with suppress(ProcessLookupError):
                os.kill(self._transport.get_pid(), signal.SIGKILL)

    async def closed(self) -> int:
        """Wait until nothing of the process is left; return its exit status, as ``Popen``."""
        return await asyncio.shield(self._closed)

    async def ended(self, grace: float) -> int:
        """Return the exit status of a process that is ending; help it along after ``grace``."""
        try:
            async with asyncio.timeout(grace):
                return await self.closed()
        except TimeoutError:
            self.kill()
            return await self.closed()

    def last_words(self) -> str:
        """Return the output of the worker since the last request, up to a limit."""
        return self._output.decode(errors="replace")

    def start_idling(self, seconds: float, retire: Callable[["Link"], None]) -> None:
        """Call ``retire`` if the process is not wanted for so long."""
        self._retirement = asyncio.get_running_loop().call_later(seconds, retire, self)

    def stop_idling(self) -> None:
        """Keep the process."""
        if self._retirement is not None:
            self._retirement.cancel()
            self._retirement = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport (asyncio)."""
        assert isinstance(transport, asyncio.SubprocessTransport)  # noqa: S101
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Collect an answer or the worker's complaints (asyncio)."""
        if fd == 2:
            self._output += data
            # Go prints the cause first and Python last; the middle is less useful.
            if len(self._output) > 3 * _KEPT_OUTPUT:
                del self._output[_KEPT_OUTPUT:-_KEPT_OUTPUT]
            return
        if self.fault:
            return  # The process is being killed; the rest of its output is ignored.
        if self._waiting is None or self._waiting.done():
            self._blame("it sent an unrequested message")
            return
        self._received += data
        self._deliver()

    def pause_writing(self) -> None:
        """Notice that the worker reads more slowly than it is sent to (asyncio)."""
        self._readable.clear()

    def resume_writing(self) -> None:
        """Notice that it has caught up (asyncio)."""
        self._readable.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        """Handle the end of a pipe: no answer can follow (asyncio)."""
        if fd == 1:
            self._resolve(None)

    def process_exited(self) -> None:
        """Drop data that the worker has not read (asyncio)."""
        pipe = self._pipe()
        if pipe is not None and not pipe.is_closing():
            pipe.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Process and pipes are gone (asyncio)."""
        self._readable.set()
        self.stop_idling()
        self._resolve(None)
        code = None
        if self._transport is not None:
            self._transport.close()
            code = self._transport.get_returncode()
        self._closed.set_result(-1 if code is None else code)
        self._on_closed(self)

    def _pipe(self) -> asyncio.WriteTransport | None:
        pipe = self._transport.get_pipe_transport(0) if self._transport is not None else None
        return pipe if isinstance(pipe, asyncio.WriteTransport) else None

    def _tell(self, frame: bytes) -> None:
        pipe = self._pipe()
        if pipe is not None and not pipe.is_closing():
            pipe.write(frame)

    async def _drained(self) -> None:
        await self._readable.wait()

    def _deliver(self) -> None:
        while (question := self._question()) is not None:
            try:
                assert self._answering is not None  # noqa: S101 - checked before
                self._answering.asked(question)
            except questions.MalformedError as exc:
                self._blame(str(exc))
        if len(self._received) >= frames.ANSWER.size and not self._asking():
            self._finish()

    def _asking(self) -> bool:
        return self._answering is not None and self._received[0] == frames.Status.ASKING

    def _question(self) -> bytes | None:
        """Take the next question that has come as a whole."""
        if len(self._received) < frames.ANSWER.size or not self._asking():
            return None
        _, size = frames.ANSWER.unpack_from(self._received)
        if size > self._limit:
            self._blame(f"its question has {size >> 20} MiB")
            return None
        end = frames.ANSWER.size + size
        if len(self._received) < end:
            return None
        question = bytes(self._received[frames.ANSWER.size : end])
        del self._received[:end]
        return question

    def _finish(self) -> None:
        status, size = frames.ANSWER.unpack_from(self._received)
        if size > self._limit:
            self._blame(f"its answer has {size >> 20} MiB")
        elif status not in frames.ENDS or len(self._received) > frames.ANSWER.size + size:
            self._blame("its answer is malformed")
        elif len(self._received) == frames.ANSWER.size + size:
            with memoryview(self._received) as view:
                body = bytes(view[frames.ANSWER.size : frames.ANSWER.size + size])
            self._received.clear()
            self.answered = True
            self._resolve((frames.Status(status), body))

    def _blame(self, fault: str) -> None:
        self.fault = fault
        self._received.clear()
        self.kill()

    def _resolve(self, answer: tuple[frames.Status, bytes] | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)
