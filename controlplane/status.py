"""What ``python -m controlplane status`` shows: every instance, its components and their memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from controlplane import instance, processes
from controlplane.instance import ProcessRef, State

_COLUMNS: Final = ("INSTANCE", "COMPONENT", "STATE", "PID", "MEMORY")

_SUPERVISOR: Final = "supervisor"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentStatus:
    """One process of an instance."""

    name: str
    pid: int
    running: bool
    memory: int
    """Resident bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatus:
    """One instance; ``phase`` is "dead" if its supervisor was killed."""

    name: str
    phase: str
    server: str
    kubeconfig: str
    failure: str
    components: tuple[ComponentStatus, ...]


def gather() -> tuple[InstanceStatus, ...]:
    """Look at every instance there is."""
    rows = []
    for name in instance.names():
        state = instance.read_state(name)
        # It may have been removed since it was listed.
        if state is not None:
            rows.append(_status_of(name, state))
    return tuple(rows)


def as_json(rows: Iterable[InstanceStatus]) -> list[dict[str, Any]]:
    """Return what ``-o json`` prints."""
    return [asdict(row) for row in rows]


def as_table(rows: Sequence[InstanceStatus]) -> str:
    """Return a table, with the failures below it."""
    if not rows:
        return "no control plane: `python -m controlplane up` starts one\n"
    lines = [_COLUMNS, *(line for row in rows for line in _lines(row))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS))]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    failures = [f"\n{row.name} failed: {row.failure}" for row in rows if row.failure]
    return "\n".join([*table, *failures]) + "\n"


def _lines(row: InstanceStatus) -> list[tuple[str, ...]]:
    memory = sum(component.memory for component in row.components)
    lines: list[tuple[str, ...]] = [(row.name, row.server, row.phase, "", _mebibytes(memory))]
    lines += [
        (
            row.name,
            component.name,
            "running" if component.running else "gone",
            str(component.pid),
            _mebibytes(component.memory),
        )
        for component in row.components
    ]
    return lines


def _status_of(name: str, state: State) -> InstanceStatus:
    running = instance.is_running(name)
    phase = state.phase if running or state.phase == "failed" else "dead"
    members: Mapping[str, ProcessRef] = {_SUPERVISOR: state.supervisor, **state.components}
    return InstanceStatus(
        name=name,
        phase=phase,
        server=state.server,
        kubeconfig=str(instance.directory_of(name) / instance.ADMIN),
        failure=state.failure,
        components=tuple(
            ComponentStatus(
                name=member,
                pid=process.pid,
                running=process.alive,
                memory=_memory(member, process.pid) if process.alive else 0,
            )
            for member, process in members.items()
        ),
    )


def _memory(member: str, pid: int) -> int:
    # A program of a node is the child of a process that stands for it outside.
    also = () if member == _SUPERVISOR else processes.children(pid)
    return sum(map(processes.resident_bytes, (pid, *also)))


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
