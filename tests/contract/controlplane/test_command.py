"""``python -m controlplane`` as a user runs it, with the real programs and a cache of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane import binaries, plane
from tests.tools.waiting import SECONDS

SOURCE = Path(binaries.__file__).parents[1]
COMPONENTS = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}

Run = Callable[..., subprocess.CompletedProcess[str]]
Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def run(control_plane_programs: Path, tmp_path: Path) -> Iterator[Run]:
    """Run a command to its end; whatever instance it left running is stopped after the test."""

    def command(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "controlplane", *arguments],
            env=_environment(control_plane_programs, tmp_path),
            capture_output=True,
            text=True,
            check=check,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )

    yield command
    command("down", "--all", check=False)


@pytest.fixture
def spawn(control_plane_programs: Path, tmp_path: Path, run: Run) -> Iterator[Spawn]:
    """Start a command that a test ends itself; it is killed if the test did not."""
    del run  # its end comes after ours, and stops what a killed command left
    started: list[subprocess.Popen[str]] = []

    def command(*arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "controlplane", *arguments],
            env=_environment(control_plane_programs, tmp_path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield command
    for process in started:
        process.kill()
        process.communicate()


def test_detached_instance_serves_until_it_is_taken_down(run: Run, tmp_path: Path) -> None:
    shell_lines = run("up", "--detach").stdout
    again = run("up", "--detach").stdout
    asked = run("env").stdout
    status = _status(run)
    ready = subprocess.run(
        ["/bin/sh", "-ec", f"{shell_lines}\nkubectl get --raw /readyz"],
        capture_output=True,
        text=True,
        check=True,
    )
    run("down")

    assert ready.stdout == "ok"
    assert again == asked == shell_lines
    assert status["phase"] == "ready"
    assert {each["name"] for each in status["components"]} == {"supervisor", *COMPONENTS}
    assert all(each["running"] for each in status["components"])
    assert _processes_below(tmp_path) == []
    assert json.loads(run("status", "--output=json").stdout) == []


def test_killed_supervisor_leaves_no_process(run: Run, tmp_path: Path) -> None:
    run("up", "--detach")
    supervisor = next(
        each["pid"] for each in _status(run)["components"] if each["name"] == "supervisor"
    )

    os.kill(supervisor, signal.SIGKILL)

    _wait_until(lambda: not _processes_below(tmp_path))
    assert _status(run)["phase"] == "dead"


def test_death_of_a_component_ends_the_rest_and_is_reported(
    spawn: Spawn, run: Run, tmp_path: Path
) -> None:
    up = spawn("up", "--output=json")
    assert up.stdout is not None
    up.stdout.readline()
    etcd = next(each["pid"] for each in _status(run)["components"] if each["name"] == "etcd")

    os.kill(etcd, signal.SIGKILL)
    _, errors = up.communicate(timeout=60)

    assert up.returncode == 1
    assert "etcd of control plane default was killed by signal 9" in errors
    assert _processes_below(tmp_path) == []
    assert "etcd" in run("status").stdout


def test_interrupt_during_the_start_leaves_nothing(spawn: Spawn, tmp_path: Path) -> None:
    up = spawn("up")
    assert up.stderr is not None
    while "kube-apiserver started" not in up.stderr.readline():
        pass

    # SIGINT takes the same way, but may be ignored by anyone who runs the tests in the background.
    up.send_signal(signal.SIGTERM)
    up.communicate(timeout=60)

    assert up.returncode == 130
    assert _processes_below(tmp_path) == []


def test_instance_ends_with_the_standard_input_of_its_owner(spawn: Spawn, tmp_path: Path) -> None:
    up = spawn("up", "--until-eof", "--output=json")
    assert up.stdout is not None
    access = json.loads(up.stdout.readline())
    there = Path(access["kubeconfig"]).is_file()

    up.communicate(timeout=60)

    assert there
    assert up.returncode == 0
    assert _processes_below(tmp_path) == []


def test_command_without_an_instance_says_how_to_start_one(run: Run) -> None:
    answer = run("env", check=False)

    assert answer.returncode == 1
    assert answer.stdout == ""
    assert "`python -m controlplane up` starts one" in answer.stderr


def _environment(programs: Path, cache: Path) -> dict[str, str]:
    # What was built is honoured as assets, so that a new cache builds nothing.
    return {
        **{name: value for name, value in os.environ.items() if name != plane.EXISTING},
        "PYTHONPATH": str(SOURCE),
        "XDG_CACHE_HOME": str(cache),
        "KUBEBUILDER_ASSETS": str(programs),
    }


def _status(run: Run) -> dict[str, Any]:
    (instance,) = json.loads(run("status", "--output=json").stdout)
    return dict(instance)


def _processes_below(directory: Path) -> list[int]:
    """Return the processes whose working directory is there, even if it is removed already."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            where = str((entry / "cwd").readlink()) if entry.name.isdigit() else ""
        except OSError:
            continue
        if where.removesuffix(" (deleted)").startswith(str(directory)):
            found.append(int(entry.name))
    return found


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.05)
