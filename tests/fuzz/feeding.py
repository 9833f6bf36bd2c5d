"""Run a reader in a process of its own, and tell how that ended."""

import multiprocessing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fuzz import child

DEADLINE: Final = 240.0
"""For a slow machine: what hangs is ended by its processor time long before."""
_FORKS: Final = multiprocessing.get_context("forkserver")
"""The server imports all parsers once; a fork of it starts in milliseconds."""
_FORKS.set_forkserver_preload([child.__name__])


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a process ended: its code is negative for a signal, and None if it hung."""

    code: int | None
    taken: bytes
    complaints: str


def feed(name: str, what: str, directory: Path) -> End:
    """Feed a row in a fork; its last input stays in the file ``input`` of the directory."""
    taken, complaints = directory / "input", directory / "stderr"
    fed = _FORKS.Process(target=child.run, args=(name, what, taken, complaints))
    fed.start()
    fed.join(DEADLINE)
    code = fed.exitcode
    if code is None:
        fed.kill()
        fed.join()
    held = taken.read_bytes() if taken.exists() else b""
    return End(code=code, taken=held, complaints=complaints.read_text()[:4000])
