"""Give back the memory that a burst has left: glibc keeps what is freed unless it is asked.

A thousand watchers that leave, and lists of some megabytes, leave holes in the heap, and each
thread may have a heap of its own. So there are two heaps, what is large is mapped by itself and
unmapped when it is freed, and holes are given back every few seconds. Other C libraries do
without this.
"""

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final

SECONDS: Final = 10.0
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
"""``malloc.h``, as mallopt(3) describes them."""
_LARGE: Final = 256 << 10
_HEAPS: Final = 2


async def run() -> None:
    """Give memory back until cancelled; each time takes a millisecond."""
    trim = _trimming()
    while trim is not None:
        # The interpreter's lock is free meanwhile.
        await asyncio.to_thread(trim, 0)
        await asyncio.sleep(SECONDS)


def _trimming() -> Callable[[int], int] | None:
    """Set the limits and return ``malloc_trim``; None where there is none."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "malloc_trim"):
        return None
    library.mallopt(_M_ARENA_MAX, _HEAPS)
    library.mallopt(_M_MMAP_THRESHOLD, _LARGE)
    trim: Callable[[int], int] = library.malloc_trim
    return trim
