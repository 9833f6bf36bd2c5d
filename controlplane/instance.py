"""Instances on disk: who holds a name, what runs under it, and how to stop it from outside.

An instance is a directory ``instances/<name>`` and a lock beside it. The supervisor holds the lock
as long as it lives, so a lock that can be taken means that nothing runs, whatever the files say;
nothing stale can keep a name from being used again. ``state.json`` is written by the supervisor
alone and read by everybody.
"""

import os
import re
import select
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from controlplane import cache, processes
from controlplane.errors import ControlPlaneError, InstanceRunningError
from controlplane.node import node
from controlplane.node.node import Reservation

STATE: Final = "state.json"
ADMIN: Final = "admin.kubeconfig"

_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,48}[a-z0-9])?\Z")
_LOCK_POLL_SECONDS: Final = 0.05
# Somebody who only asks whether a name is taken holds its lock for a moment.
_CLAIM_SECONDS: Final = 0.5
_KILL_AFTER_SECONDS: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRef:
    """One process for good: its id and its start time in ticks since boot."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "ProcessRef":
        """Take the reference of a running process."""
        return cls(pid=pid, started=processes.start_time(pid))

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return self.started != 0 and processes.start_time(self.pid) == self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a supervisor says of its instance."""

    name: str
    phase: Literal["starting", "ready", "failed"]
    supervisor: ProcessRef
    server: str = ""
    components: dict[str, ProcessRef] = field(default_factory=dict)
    programs: dict[str, str] = field(default_factory=dict)
    """Where each program was found, ``kubectl`` included."""
    failure: str = ""
    node: Reservation | None = None
    """What its real node holds on the machine, if it has one."""
    first: ProcessRef | None = None
    """Process 1 of the node: when it is gone, so is every process in there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A name that we hold: nobody else can start an instance under it."""

    name: str
    descriptor: int

    @property
    def directory(self) -> Path:
        """The instance's directory, which may not exist yet."""
        return directory_of(self.name)


@contextmanager
def claim(name: str, *, alternatives: int = 0) -> Iterator[Claim]:
    """Hold the lock on a name; with ``alternatives``, on the first free of name, name-2, ….

    Raises:
        InstanceRunningError: the name, and each alternative, is held by a running instance.
    """
    candidates = [name, *(f"{name}-{number}" for number in range(2, alternatives + 2))]
    deadline = time.monotonic() + _CLAIM_SECONDS
    while (held := _first_free(candidates)) is None:
        if time.monotonic() > deadline:
            raise InstanceRunningError(
                f"a control plane named {name} is running: see `python -m controlplane status`"
            )
        time.sleep(_LOCK_POLL_SECONDS)
    try:
        yield held
    finally:
        os.close(held.descriptor)


def _first_free(candidates: Sequence[str]) -> Claim | None:
    for name in candidates:
        descriptor = cache.try_lock(_lock_of(name))
        if descriptor is not None:
            return Claim(name=name, descriptor=descriptor)
    return None


def directory_of(name: str) -> Path:
    """Return the directory of an instance, which need not exist.

    Raises:
        ControlPlaneError: the name cannot be a directory and host name.
    """
    if not _NAME.match(name):
        raise ControlPlaneError(
            f"{name!r} cannot name a control plane: use up to 50 of a-z, 0-9 and -"
        )
    return cache.directory("controlplane", "instances") / name


def names() -> tuple[str, ...]:
    """Return the names of all instances that run or left something behind."""
    parent = cache.directory("controlplane", "instances")
    return tuple(sorted(path.parent.name for path in parent.glob(f"*/{STATE}")))


def is_running(name: str) -> bool:
    """Tell whether a supervisor holds the name."""
    return cache.is_locked(_lock_of(name))


def read_state(name: str) -> State | None:
    """Return what the supervisor last said, or None if there is no such instance."""
    try:
        return msgspec.json.decode((directory_of(name) / STATE).read_bytes(), type=State)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as exc:
        raise ControlPlaneError(f"the state of control plane {name} is damaged: {exc}") from exc


def write_state(directory: Path, state: State) -> None:
    """Put a state in place of the last one at once, so that no reader sees half of it."""
    temporary = directory / f".{STATE}.tmp"
    temporary.write_bytes(msgspec.json.encode(state))
    temporary.rename(directory / STATE)


def stop(name: str) -> bool:
    """Stop a running instance and remove what it left; tell whether one was running.

    Raises:
        ControlPlaneError: it runs, but its supervisor cannot be told for sure.
    """
    state = read_state(name)
    running = is_running(name)
    if running:
        if state is None or not state.supervisor.alive:
            raise ControlPlaneError(f"control plane {name} is just starting or stopping: try again")
        _end(state.supervisor)
    with claim(name) as held:
        if state is not None:
            remove_node(state)
        shutil.rmtree(held.directory, ignore_errors=True)
        forget(name)
    return running


def remove_node(state: State) -> None:
    """Remove what is left of the node of an instance that has ended, if it had one.

    Raises:
        ControlPlaneError: processes of the node still run.
    """
    deadline = time.monotonic() + _KILL_AFTER_SECONDS
    # Killed with the supervisor, which does not mean that they are gone at once.
    while state.first is not None and state.first.alive and time.monotonic() < deadline:
        time.sleep(_LOCK_POLL_SECONDS)
    if state.node is not None:
        node.remove(state.node)


def sweep() -> None:
    """Remove what instances left whose supervisor was killed; failed ones keep their logs."""
    for name in names():
        # Somebody else may start, stop or have damaged it: no concern of ours.
        with suppress(ControlPlaneError):
            state = read_state(name)
            if state is not None and state.phase != "failed" and not is_running(name):
                stop(name)


def forget(name: str) -> None:
    """Remove the files beside the directory; only for the holder of the name, and its last act."""
    log = log_of(name)
    if log.exists() and log.stat().st_size == 0:
        log.unlink()
    _lock_of(name).unlink(missing_ok=True)


def _end(supervisor: ProcessRef) -> None:
    try:
        descriptor = os.pidfd_open(supervisor.pid)
    except ProcessLookupError:
        return
    try:
        # Asked again now that the descriptor pins the process: the id cannot pass on any more.
        if not supervisor.alive:
            return
        # SIGKILL reaches its components too: the kernel sends it to them at its death.
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(descriptor, number)
            if select.select([descriptor], [], [], _KILL_AFTER_SECONDS)[0]:
                return
    finally:
        os.close(descriptor)


def log_of(name: str) -> Path:
    """Return where the supervisor's own standard error goes."""
    return directory_of(name).with_suffix(".log")


def _lock_of(name: str) -> Path:
    return directory_of(name).with_suffix(".lock")
