"""The number of processors that this process may use: affinity, limited by a CPU quota.

A container on a large machine sees all of its processors and may use one. Pools of workers are
sized by the usable processors, because each worker may also use its share of memory.
"""

import math
import os
from pathlib import Path
from typing import Final

_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def available(quota: Path = _QUOTA) -> int:
    """Return the number of processors, at least one; ``quota`` is a cgroup v2 ``cpu.max``."""
    allowed = len(os.sched_getaffinity(0))
    try:
        share, period = quota.read_text().split()
    except (OSError, ValueError):
        return allowed
    if share == "max":
        return allowed
    return max(1, min(allowed, math.ceil(int(share) / int(period))))
