"""A supervisor with scripts in place of the programs: what fails, and what an end leaves behind.

The scripts stand in for programs that die or never get ready; what a real control plane does is
seen in ``tests/contract/controlplane``.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane import instance
from controlplane.components import COMPONENTS
from controlplane.errors import ComponentDiedError, ControlPlaneError, InstanceRunningError
from controlplane.supervision import Supervision

SOURCE = Path(instance.__file__).parents[1]
SLEEPS = "exec sleep 60"
IGNORES_SIGTERM = f"trap '' TERM; {SLEEPS}"
# Binds the socket that tells that etcd answers, and stays.
ETCD = f"""exec {sys.executable} -c '
import socket, time
server = socket.socket(socket.AF_UNIX)
server.bind("etcd.sock:0")
server.listen()
time.sleep(60)'"""
OWNER = """
import signal
import sys
from pathlib import Path
from controlplane import instance
from controlplane.supervision import Supervision
# Anyone who runs the tests in the background of a shell script ignores it, and so would we.
signal.signal(signal.SIGINT, signal.default_int_handler)
programs = {path.name: path for path in Path(sys.argv[1]).iterdir()}
with instance.claim("one") as held:
    supervision = Supervision.start(held, programs=programs, flags={})
supervision.wait_for("started")
print("started", flush=True)
if "detach" in sys.argv:
    supervision.detach()
else:
    supervision.wait_for("ready")
"""

Start = Callable[..., Supervision]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory of programs that all do nothing, and a cache to run them in."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    directory = tmp_path / "programs"
    directory.mkdir()
    for component in COMPONENTS:
        _script(directory / component.name, SLEEPS)
    return directory


@pytest.fixture
def start(programs: Path) -> Iterator[Start]:
    """Start supervisors of those programs; each is ended after the test."""
    started: list[Supervision] = []

    def run(name: str = "one", **flags: list[str]) -> Supervision:
        with instance.claim(name) as held:
            paths = {path.name: path for path in programs.iterdir()}
            supervision = Supervision.start(held, programs=paths, flags=flags)
        started.append(supervision)
        return supervision

    yield run
    for supervision in started:
        supervision.stop()


def test_component_that_dies_is_named_with_its_last_words(programs: Path, start: Start) -> None:
    _script(programs / "etcd", "echo first; echo 'disk is full' >&2; exit 3")

    supervision = start()

    with pytest.raises(ComponentDiedError) as caught:
        supervision.wait_for("ready")
    assert "etcd of control plane one ended with status 3" in str(caught.value)
    assert "disk is full" in str(caught.value)


def test_killed_component_is_told_from_one_that_ended(programs: Path, start: Start) -> None:
    _script(programs / "etcd", "kill -SEGV $$")

    supervision = start()

    with pytest.raises(
        ComponentDiedError, match="etcd of control plane one was killed by signal 11"
    ):
        supervision.wait_for("ready")


def test_death_of_one_ends_the_others_and_leaves_only_logs(programs: Path, start: Start) -> None:
    _script(programs / "etcd", ETCD)
    _script(programs / "kube-apiserver", "echo 'invalid flag'; exit 1")

    supervision = start()
    with pytest.raises(ComponentDiedError, match="invalid flag"):
        supervision.wait_for("ready")
    supervision.stop()

    directory = instance.directory_of("one")
    assert _processes_in(directory) == []
    assert sorted(path.name for path in directory.iterdir()) == ["logs", "state.json"]
    state = instance.read_state("one")
    assert state is not None
    assert state.phase == "failed"
    assert "invalid flag" in state.failure


def test_program_that_cannot_be_run_is_named(programs: Path, start: Start) -> None:
    (programs / "etcd").write_text("not a program")
    (programs / "etcd").chmod(0o644)

    supervision = start()

    with pytest.raises(ComponentDiedError, match=r"cannot run .*/etcd: Permission denied"):
        supervision.wait_for("ready")


def test_further_flags_take_the_place_of_the_usual_ones(
    programs: Path, start: Start, tmp_path: Path
) -> None:
    _script(programs / "etcd", f'echo "$@" > {tmp_path / "flags"}; exit 1')

    supervision = start(etcd=["--log-level=debug"])
    with pytest.raises(ComponentDiedError):
        supervision.wait_for("ready")

    flags = (tmp_path / "flags").read_text()
    assert flags.endswith(" --log-level=debug\n")
    assert "--log-level=warn" not in flags


def test_name_is_taken_while_the_supervisor_runs(start: Start) -> None:
    start()

    with pytest.raises(InstanceRunningError):
        start()


@pytest.mark.parametrize("script", [SLEEPS, IGNORES_SIGTERM])
def test_stop_during_the_start_leaves_nothing(programs: Path, start: Start, script: str) -> None:
    _script(programs / "etcd", ETCD)
    begun = programs.parent / "begun"
    _script(programs / "kube-apiserver", script.replace("exec", f"touch {begun}; exec"))
    supervision = start()
    _wait_until(begun.exists)

    supervision.stop()

    assert _processes_in(instance.directory_of("one")) == []
    assert list(instance.directory_of("one").parent.iterdir()) == []
    assert not instance.is_running("one")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_end_of_the_owner_leaves_nothing(programs: Path, number: signal.Signals) -> None:
    _script(programs / "etcd", ETCD)
    command = [sys.executable, "-c", OWNER, str(programs)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=SOURCE
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        owner.send_signal(number)

    _wait_until(lambda: not _processes_in(instance.directory_of("one")))
    assert not instance.is_running("one")


def test_killed_supervisor_takes_everything_with_it(programs: Path, start: Start) -> None:
    _script(programs / "etcd", ETCD)
    supervision = start()
    supervision.wait_for("started")
    supervision.wait_for("started")
    state = instance.read_state("one")
    assert state is not None

    os.kill(state.supervisor.pid, signal.SIGKILL)

    with pytest.raises(ControlPlaneError, match="supervisor of control plane one died"):
        supervision.wait_for("ready")
    _wait_until(lambda: not _processes_in(instance.directory_of("one")))
    assert not instance.is_running("one")


def test_supervisor_can_be_stopped_from_outside(start: Start) -> None:
    supervision = start()
    supervision.wait_for("started")

    stopped = instance.stop("one")

    assert stopped
    with pytest.raises(ControlPlaneError, match="control plane one was stopped"):
        supervision.wait_for("ready")
    assert not instance.directory_of("one").exists()


def test_files_of_a_killed_supervisor_do_not_hinder_the_next_start(start: Start) -> None:
    first = start()
    first.wait_for("started")
    state = instance.read_state("one")
    assert state is not None
    os.kill(state.supervisor.pid, signal.SIGKILL)
    _wait_until(lambda: not instance.is_running("one"))

    again: list[str] = []
    start().wait_for("started", report=lambda event: again.append(event.subject))

    assert again == ["etcd"]


def test_detached_instance_outlives_its_owner(programs: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(programs), "detach"]

    subprocess.run(command, check=True, cwd=SOURCE, capture_output=True)

    assert instance.is_running("one")
    assert instance.stop("one")
    assert not instance.is_running("one")


def test_unknown_component_is_refused(start: Start) -> None:
    supervision = start()

    with pytest.raises(ControlPlaneError, match="no component kubelet"):
        supervision.stop_component("kubelet")


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _processes_in(directory: Path) -> list[int]:
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
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)
