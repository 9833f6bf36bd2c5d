"""The result: one table for people, one JSON document for programs. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from bench.measure import Phase
from cli import table

Column = tuple[str, Callable[[Phase], str]]
"""A title, and what stands below it for a phase."""


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that ``share`` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def render(phases: Sequence[Phase], *, title: str, columns: Sequence[Column] = ()) -> str:
    """Return the table; ``columns`` are ``WHOLE`` unless told otherwise."""
    columns = columns or WHOLE
    rows = [tuple(cell(phase) for _, cell in columns) for phase in phases]
    return f"{title}\n\n" + table.render([name for name, _ in columns], rows, show_header=True)


def document(phases: Sequence[Phase], *, count: int) -> dict[str, Any]:
    """Return everything measured, without the single latencies."""
    return {"count": count, "phases": [_fields(phase) for phase in phases]}


def _fields(phase: Phase) -> dict[str, Any]:
    fields = asdict(replace(phase, floor=None))
    fields["floor"] = None if phase.floor is None else _fields(phase.floor)
    quantiles = {
        f"{name}{suffix}": quantile(latencies, share) if latencies else None
        for suffix, latencies in (("", fields.pop("latencies")), ("_beside", fields.pop("beside")))
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }
    each = {"requests_each": phase.requests_each, "requests_all_clients": phase.all_requests}
    return fields | quantiles | each


def _ratio(phase: Phase, share: float) -> str:
    ratio = quantile(phase.latencies, share) / quantile(phase.beside, share)
    return "-" if math.isnan(ratio) else f"{ratio:.2f}"


def _added(phase: Phase, share: float) -> str:
    return _exact(quantile(phase.latencies, share) - quantile(phase.beside, share))


def _memory(phase: Phase) -> str:
    return "-" if phase.peak_memory < 0 else f"{phase.peak_memory / (1 << 20):.0f} MiB"


def _each(value: float, count: int) -> str:
    return "-" if value < 0 or not count else _exact(value / count)


def _exact(value: float) -> str:
    return "-" if math.isnan(value) else f"{value * 1000:.2f} ms"


def _seconds(value: float) -> str:
    if math.isnan(value) or value < 0:
        return "-"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def _floor(phase: Phase) -> str:
    """Return wall time and CPU of the API server that the floor took."""
    floor = phase.floor
    if floor is None:
        return "-"
    return f"{_seconds(floor.wall)} / {_seconds(floor.control_plane_cpu)}"


def _to_floor(phase: Phase) -> str:
    """Return how many times the floor the phase took, in wall time and CPU of the API server."""
    if phase.floor is None:
        return "-"
    return " / ".join(
        f"{taken / least:.1f}" if taken >= 0 and least > 0 else "-"
        for taken, least in (
            (phase.wall, phase.floor.wall),
            (phase.control_plane_cpu, phase.floor.control_plane_cpu),
        )
    )


WHOLE: Final[Sequence[Column]] = (
    ("PHASE", lambda phase: phase.name),
    ("WALL", lambda phase: _seconds(phase.wall)),
    ("P50", lambda phase: _seconds(quantile(phase.latencies, 0.5))),
    ("P99", lambda phase: _seconds(quantile(phase.latencies, 0.99))),
    ("CPU", lambda phase: _seconds(phase.controller_cpu)),
    ("CPU(API)", lambda phase: _seconds(phase.control_plane_cpu)),
    # Wall time and CPU of the API server, of the same work with no controller's part.
    ("FLOOR", _floor),
    ("TIMES FLOOR", _to_floor),
    ("PEAK MEMORY", _memory),
    # Per object, of the controllers where that is known.
    ("REQ EACH", lambda phase: f"{phase.requests_each:.1f}"),
    ("REQ ALL CLIENTS", lambda phase: str(phase.all_requests)),
    ("NOTE", lambda phase: phase.note),
)
"""A phase as a whole."""
DELIVERED: Final[Sequence[Column]] = (
    ("PHASE", lambda phase: phase.name),
    ("WALL", lambda phase: _seconds(phase.wall)),
    # From the post of an object's newest event to its arrival.
    ("DELAY P50", lambda phase: _seconds(quantile(phase.latencies, 0.5))),
    ("DELAY P99", lambda phase: _seconds(quantile(phase.latencies, 0.99))),
    ("CPU", lambda phase: _seconds(phase.controller_cpu)),
    ("PEAK MEMORY", _memory),
    ("NOTE", lambda phase: phase.note),
)
"""A phase of events."""
COMPARED: Final[Sequence[Column]] = (
    ("PHASE", lambda phase: phase.name),
    ("P50", lambda phase: _exact(quantile(phase.latencies, 0.5))),
    ("P99", lambda phase: _exact(quantile(phase.latencies, 0.99))),
    ("P50 WITHOUT", lambda phase: _exact(quantile(phase.beside, 0.5))),
    ("P99 WITHOUT", lambda phase: _exact(quantile(phase.beside, 0.99))),
    ("P50 ADDED", lambda phase: _added(phase, 0.5)),
    ("P50 RATIO", lambda phase: _ratio(phase, 0.5)),
    ("P99 RATIO", lambda phase: _ratio(phase, 0.99)),
    # Of the controllers, for one object.
    ("CPU EACH", lambda phase: _each(phase.controller_cpu, phase.count)),
    ("PEAK MEMORY", _memory),
    ("NOTE", lambda phase: phase.note),
)
"""A phase beside the same without what is measured."""
