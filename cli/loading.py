"""Import modules without looking for garbage among them, which takes a tenth of a command's start.

Modules live until the process ends, so that there is none to find.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch the collector off, and on again unless it was off before."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.freeze()
            gc.enable()
