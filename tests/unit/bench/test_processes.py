"""What ``/proc`` tells about process trees."""

import os
import subprocess
import sys

from bench import processes

CHILD = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'input()'], "
CHILD += "stdin=sys.stdin); print(p.pid, flush=True); p.wait()"


def test_tree_holds_children_and_grandchildren() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())

        found = processes.tree([child.pid])
        child.communicate("\n")

    assert found == {child.pid, grandchild}


def test_own_processor_time_and_memory_are_seen() -> None:
    assert processes.cpu_seconds([os.getpid()]) > 0
    assert processes.memory_bytes([os.getpid()]) > 1 << 20


def test_process_that_has_ended_costs_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()

    assert processes.cpu_seconds([child.pid]) == 0
    assert processes.memory_bytes([child.pid]) == 0


def test_memory_is_told_by_what_of_penstock_a_process_runs() -> None:
    arguments = [sys.executable, "-c", "print(flush=True); input()", "--components=source", "-v"]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        # The kernel shows the arguments only a moment after Popen has returned.
        assert child.stdout is not None
        child.stdout.readline()
        found = processes.memory_by_component([child.pid, os.getpid()])
        child.communicate("\n")

    assert "source" in found
    assert len(found) == 2
    assert all(size > 1 << 20 for name, size in found.items() if name != "source")
