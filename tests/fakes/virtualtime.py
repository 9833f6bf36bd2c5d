"""An event loop whose clock jumps to the next timer when there is nothing to do.

Minutes of back-off pass in milliseconds, and always in the same order. Sockets and threads work:
before it jumps, the loop has the kernel deliver what was sent on loopback, gives other processes a
moment to answer, and threads a longer one to end.
"""

import asyncio
import contextlib
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_GRACE = 0.003
"""Real seconds that a loopback peer may take to answer before the clock jumps."""
_LATE = 2.0
"""A wait that took so many times as long means that the machine is busy, and peers are late too."""
_AGAIN = 20
"""How often such a wait is repeated."""
_WORK = 0.5
"""Real seconds that a thread may take before it does."""
_RUNNABLE = frozenset("RD")
"""States of a thread (proc(5)) that works, or waits for a processor or a disk."""


class _Loopback:
    """Has the kernel deliver what this thread sent on loopback.

    Each processor delivers in the order of sending, when it comes to it. So a byte that is sent
    from each and has arrived tells that everything before it has.
    """

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._near = socket.create_connection(server.getsockname())
            self._far, _ = server.accept()

    def deliver(self) -> None:
        """Return when everything has arrived."""
        allowed = os.sched_getaffinity(0)
        try:
            for processor in allowed:
                os.sched_setaffinity(0, {processor})
                self._near.send(b".")
                self._far.recv(1)
        finally:
            os.sched_setaffinity(0, allowed)

    def close(self) -> None:
        """Close both ends."""
        self._near.close()
        self._far.close()


def _is_working() -> bool:
    """Tell whether another thread of this process has something to do, and waits for nobody."""
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) == threading.get_native_id():
            continue
        with contextlib.suppress(OSError):  # it has ended
            # The name before the state may hold anything, a parenthesis too.
            if (task / "stat").read_text().rpartition(")")[2].split()[0] in _RUNNABLE:
                return True
    return False


class _Selector(selectors.DefaultSelector):
    """Answers as if the timeout had passed at once, and tells the loop how long it was."""

    def __init__(self) -> None:
        super().__init__()
        self.elapsed = 0.0
        self.threads = 0
        self._loopback = _Loopback()

    def close(self) -> None:
        self._loopback.close()
        super().close()

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        grace = _WORK if self.threads else _GRACE
        if timeout is None:
            return super().select(1.0)
        late = 0
        while late < _AGAIN:
            began = time.monotonic()
            ready = super().select(grace)
            if ready:
                return ready
            if self.threads and _is_working():
                continue  # however long its second takes on this machine
            if time.monotonic() - began < _LATE * grace:
                break
            late += 1
        self._loopback.deliver()
        ready = super().select(0)
        if not ready:
            self.elapsed += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """``time()`` starts at zero and moves only when everything waits."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.elapsed

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Count what is under way in threads."""
        future = super().run_in_executor(executor, func, *args)
        self._virtual.threads += 1
        future.add_done_callback(self._came_back)
        return future

    def _came_back(self, _: object) -> None:
        self._virtual.threads -= 1


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function on a virtual clock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


async def settle(turns: int = 50) -> None:
    """Let everything happen that can happen now."""
    for _ in range(turns):
        await asyncio.sleep(0)
