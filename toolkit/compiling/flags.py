"""The flags and the environment of every Go build.

Go compiles a package again when a flag, the version of its module, or a package below it differs.
A shared library needs code that does not depend on its address, so programs are built in the same
way (``-buildmode=pie``), and with cgo as the engine is. Debug information and the collector of
the compiler cost two fifths of its processor time (docs/adr/0051). No flag makes a program slower.
"""

import os
from typing import Final

PROGRAM: Final = "-buildmode=pie"
STATIC: Final = "-buildmode=default"
"""A program for a container without a C library; goes with ``environment(static=True)``."""
LIBRARY: Final = "-buildmode=c-shared"
COMPILER: Final = ("-trimpath", "-buildvcs=false", "-pgo=off", "-gcflags=all=-dwarf=false")
LINKER: Final = ("-s", "-w")

# The biggest package needs 1 GB uncollected; there is one compiler for each processor.
_MOST: Final = 2 << 30
_LEAST: Final = 512 << 20


def build(mode: str, *, linker: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return ``build`` and its flags; ``-v`` prints a line for each package that is compiled."""
    return ("build", mode, *COMPILER, "-v", f"-ldflags={' '.join((*LINKER, *linker))}")


def environment(*, static: bool = False) -> dict[str, str]:
    """Return what is added to the environment, so that only go.mod and go.sum decide.

    ``static`` is for programs that run where there is no C library.
    """
    return {
        "CGO_ENABLED": "0" if static else "1",
        "GOFLAGS": "",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        # A compiler lives for seconds. It collects only when memory becomes scarce.
        "GOGC": "off",
        "GOMEMLIMIT": str(compiler_memory(physical=_physical(), processors=os.cpu_count() or 1)),
    }


def compiler_memory(*, physical: int, processors: int) -> int:
    """Return the bytes from which on a compiler collects: half of the memory is for all of them."""
    return max(_LEAST, min(_MOST, physical // (2 * processors)))


def _physical() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
