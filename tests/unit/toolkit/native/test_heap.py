"""Memory that a burst has left goes back to the system; what is read into is not mapped anew."""

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

READS = """
import asyncio, os, resource
from toolkit.native import heap

async def faults():
    running = asyncio.create_task(heap.run())
    await asyncio.sleep(0)
    source, sink = os.pipe()
    def read():
        os.write(sink, b"a frame")
        os.read(source, 256 << 10)
    read()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(1000):
        read()
    running.cancel()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(asyncio.run(faults()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap is what is looked at")
def test_holes_that_a_burst_has_left_are_given_back() -> None:
    found = subprocess.run([sys.executable, "-c", BURST], capture_output=True, check=True)

    full, left, trimmed = map(int, found.stdout.split())
    assert left > full / 2, "what is freed is kept, unless it is asked for"
    assert trimmed < full / 2


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap is what is looked at")
def test_blocks_to_read_into_are_taken_from_the_heap() -> None:
    found = subprocess.run([sys.executable, "-c", READS], capture_output=True, check=True)

    assert int(found.stdout) < 500, "a block that is mapped anew causes a page fault or more"
