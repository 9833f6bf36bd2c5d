"""The state directory of one ``penstock up``: its supervisor, and files of processes.

There is one supervisor per directory: it holds a lock that the kernel releases when the process
ends in any way, so no stale lock stays. ``up.json`` describes the stack; it is valid only while the
lock is held.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from cli import errors

VARIABLE: Final = "PENSTOCK_STATE"
_RECORD: Final = "up.json"
_LOCK: Final = "up.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The state of a supervisor; ``processes`` maps names to process ids.

    ``addresses`` maps what is served to its URL, such as ``receivers``.
    """

    pid: int
    kubeconfig: str
    namespace: str
    phase: str
    name: str = "default"
    processes: dict[str, int] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    failure: str = ""


def default_directory() -> Path:
    """Return ``PENSTOCK_STATE``, else ``penstock`` in the user's state directory (XDG)."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen) if chosen else _home() / "penstock"


def directory_of(name: str) -> Path:
    """Return the state directory of the ``penstock up`` that runs under a name.

    Raises:
        UsageError: none does.
    """
    try:
        found = Path(_pointer(name).read_text())
    except OSError:
        found = default_directory()
    record = running(found)
    if record is None or record.name != name:
        raise errors.UsageError(
            f"no `penstock up --name {name}` runs here; --state names its directory"
        )
    return found


@contextmanager
def named(name: str, state: Path) -> Iterator[None]:
    """Let ``directory_of`` find a state directory for the time of the block."""
    pointer = _pointer(name)
    pointer.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    pointer.write_text(str(state.absolute()))
    try:
        yield
    finally:
        pointer.unlink(missing_ok=True)


def _home() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")


def _pointer(name: str) -> Path:
    return _home() / "penstock-names" / quote(name, safe="")


@contextmanager
def exclusive(state: Path) -> Iterator[None]:
    """Hold the directory's lock.

    Raises:
        UsageError: another supervisor holds it.
    """
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (state / _LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise errors.UsageError(
                f"Penstock already runs in {state}; `penstock down` stops it, "
                "--state chooses another directory"
            ) from exc
        yield


def running(state: Path) -> Record | None:
    """Return the record of the supervisor that holds the lock, ``None`` where none does."""
    if not is_locked(state):
        return None
    try:
        fields = json.loads((state / _RECORD).read_text())
        return Record(**fields)
    except (OSError, ValueError, TypeError):
        return None


def is_locked(state: Path) -> bool:
    """Tell whether a supervisor holds the directory."""
    try:
        lock = (state / _LOCK).open("r+")
    except OSError:
        return False
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def write(state: Path, record: Record) -> None:
    """Replace the record in one step."""
    draft = state / f".{_RECORD}.{os.getpid()}"
    draft.write_text(json.dumps(asdict(record), indent=2) + "\n")
    draft.replace(state / _RECORD)


def clear(state: Path) -> None:
    """Remove the record."""
    (state / _RECORD).unlink(missing_ok=True)
