"""Children that end with their parent, seen on real processes."""

import os
import select
import subprocess
import sys
from pathlib import Path

from controlplane import processes

PARENT = """
import subprocess, sys, time
from controlplane import processes
child = subprocess.Popen(processes.bound_to_us("/bin/sleep", "60"))
print(child.pid, flush=True)
time.sleep(60)
"""
SOURCE = Path(processes.__file__).parents[1]


def test_child_ends_when_its_parent_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, cwd=SOURCE
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        _wait_until_it_is(child, "sleep")
        descriptor = os.pidfd_open(child)
        parent.kill()

    assert _ended(descriptor)


def test_child_of_a_parent_that_is_gone_never_runs(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = processes.bound_to_us("/usr/bin/touch", mark)
    # As if the parent had died, and with it its number, before the launcher looked.
    command[command.index(str(os.getpid()))] = str(os.getpid() + 1)

    status = subprocess.run(command, check=False).returncode

    assert status == 1
    assert not mark.exists()


def test_start_time_tells_processes_apart() -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as other:
        mine, others = processes.start_time(os.getpid()), processes.start_time(other.pid)
        other.kill()

    assert 0 < mine < others


def test_zombie_does_not_run() -> None:
    child = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    assert processes.start_time(child.pid) == 0
    child.wait()
    assert processes.start_time(child.pid) == 0


def test_memory_of_a_running_process_is_known() -> None:
    assert processes.resident_bytes(os.getpid()) > 1 << 20
    assert processes.resident_bytes(0) == 0


def _wait_until_it_is(pid: int, name: str) -> None:
    while Path(f"/proc/{pid}/comm").read_text().strip() != name:
        pass


def _ended(descriptor: int) -> bool:
    ready, _, _ = select.select([descriptor], [], [], 10)
    os.close(descriptor)
    return bool(ready)
