"""Return freed memory to the system after a burst: glibc keeps it otherwise.

A thousand watchers that disconnect, and lists of some megabytes, leave holes in the heap, and each
thread may have its own heap. So there are at most two heaps, large blocks are mapped separately and
unmapped when they are freed, and holes are returned every few seconds. Other C libraries are not
configured.

asyncio allocates a block of 256 KiB for each read from a pipe or a TLS stream, and frees it at
once. Such a block must come from the heap: to map and unmap it costs 40 to 60 microseconds, a
fifth of an API request or of a watch event. For the same reason, a free does not shrink the heap
until the next return of holes.
"""

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final

SECONDS: Final = 10.0
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
"""``malloc.h``, as mallopt(3) describes them."""
_LARGE: Final = 512 << 10
_UNUSED: Final = 1 << 20
"""Bytes that may stay unused at the end of the heap when memory is freed."""
_HEAPS: Final = 2


async def run() -> None:
    """Give memory back until cancelled; each time takes a millisecond."""
    trim = _trimming()
    while trim is not None:
        # The call releases the GIL.
        await asyncio.to_thread(trim, 0)
        await asyncio.sleep(SECONDS)


def _trimming() -> Callable[[int], int] | None:
    """Set the limits and return ``malloc_trim``; None if the C library does not have it."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "malloc_trim"):
        return None
    library.mallopt(_M_ARENA_MAX, _HEAPS)
    library.mallopt(_M_MMAP_THRESHOLD, _LARGE)
    library.mallopt(_M_TRIM_THRESHOLD, _UNUSED)
    trim: Callable[[int], int] = library.malloc_trim
    return trim
