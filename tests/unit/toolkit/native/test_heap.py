"""Memory that a burst has left goes back to the system, though what stays lies in between."""

import subprocess
import sys

import pytest

BURST = """
import asyncio
from toolkit.native import heap

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

async def trimmed():
    trimming = asyncio.create_task(heap.run())
    while (now := resident()) > full / 2:
        await asyncio.sleep(0.05)
    trimming.cancel()
    return now

lines = [bytes(2000) for _ in range(50_000)]
full = resident()
kept = lines[::1000]
del lines
print(full, resident(), asyncio.run(asyncio.wait_for(trimmed(), 60)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap is what is looked at")
def test_holes_that_a_burst_has_left_are_given_back() -> None:
    found = subprocess.run([sys.executable, "-c", BURST], capture_output=True, check=True)

    full, left, trimmed = map(int, found.stdout.split())
    assert left > full / 2, "what is freed is kept, unless it is asked for"
    assert trimmed < full / 2
