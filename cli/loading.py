"""Import modules when they are needed, and without looking for garbage among them.

Looking takes a tenth of a command's start, and modules live until the process ends.
"""

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Later:
    """Represents a module until one of its attributes is used: help needs no HTTP client.

    Type checkers see the module itself, which is imported only for them.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        """Import the module, and return the attribute of the name."""
        with uncollected():
            return getattr(importlib.import_module(self._name), name)


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
