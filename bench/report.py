"""The result: one table for people, one JSON document for programs. Pure."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from bench.measure import Phase
from cli import table

COLUMNS: Final = (
    "PHASE",
    "WALL",
    "P50",
    "P99",
    "CPU",
    "CPU(API)",
    "PEAK MEMORY",
    "REQ EACH",
    "REQ ALL CLIENTS",
    "NOTE",
)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that ``share`` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def render(phases: Sequence[Phase], *, title: str) -> str:
    """Return the table; ``REQ EACH`` is per object, of the controllers where that is known."""
    rows = [_row(phase) for phase in phases]
    return f"{title}\n\n" + table.render(COLUMNS, rows, show_header=True)


def document(phases: Sequence[Phase], *, count: int) -> dict[str, Any]:
    """Return everything measured, without the single latencies."""
    return {"count": count, "phases": [_fields(phase) for phase in phases]}


def _row(phase: Phase) -> tuple[str, ...]:
    return (
        phase.name,
        _seconds(phase.wall),
        _seconds(quantile(phase.latencies, 0.5)),
        _seconds(quantile(phase.latencies, 0.99)),
        _seconds(phase.controller_cpu),
        _seconds(phase.control_plane_cpu),
        "-" if phase.peak_memory < 0 else f"{phase.peak_memory / (1 << 20):.0f} MiB",
        f"{phase.requests_each:.1f}",
        str(phase.all_requests),
        phase.note,
    )


def _fields(phase: Phase) -> dict[str, Any]:
    fields = asdict(phase)
    latencies = fields.pop("latencies")
    quantiles = {
        name: quantile(latencies, share) if latencies else None
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }
    each = {"requests_each": phase.requests_each, "requests_all_clients": phase.all_requests}
    return fields | quantiles | each


def _seconds(value: float) -> str:
    if math.isnan(value) or value < 0:
        return "-"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
