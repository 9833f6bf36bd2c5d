"""Flags that define when a process of ``penstock up`` counts as hung, for ``liveness``."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """When a process counts as hung; all but ``failures`` in seconds.

    ``failures`` are counted in a row, each an answer other than 200 or none within ``timeout``.
    Before its first answer a process has ``startup`` to begin.
    """

    period: float = 10.0
    timeout: float = 10.0
    failures: int = 3
    startup: float = 120.0
