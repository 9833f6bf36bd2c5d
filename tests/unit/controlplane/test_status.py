"""What `status` says of instances on disk."""

import os
from pathlib import Path

import pytest

from controlplane import instance, status
from controlplane.instance import ProcessRef, State


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_no_instance_tells_how_to_start_one() -> None:
    assert "python -m controlplane up" in status.as_table(status.gather())


def test_running_instance_shows_its_processes() -> None:
    _write(State(name="one", phase="ready", supervisor=_me(), components={"etcd": _me()}))

    with instance.claim("one"):
        table = status.as_table(status.gather())

    lines = [line.split() for line in table.splitlines()]
    assert lines[0] == ["INSTANCE", "COMPONENT", "STATE", "PID", "MEMORY"]
    assert lines[1][:2] == ["one", "ready"]
    assert [line[:4] for line in lines[2:]] == [
        ["one", "supervisor", "running", str(os.getpid())],
        ["one", "etcd", "running", str(os.getpid())],
    ]


def test_instance_whose_supervisor_was_killed_is_dead() -> None:
    gone = ProcessRef(pid=os.getpid(), started=1)
    _write(State(name="one", phase="ready", supervisor=gone))

    (row,) = status.gather()

    assert row.phase == "dead"
    assert row.components[0].running is False


def test_failure_is_shown_below_the_table() -> None:
    _write(State(name="one", phase="failed", supervisor=_me(), failure="etcd ended"))

    assert status.as_table(status.gather()).endswith("\none failed: etcd ended\n")


def test_json_has_the_same_content() -> None:
    _write(State(name="one", phase="failed", supervisor=_me(), failure="etcd ended"))

    (row,) = status.as_json(status.gather())

    assert (row["name"], row["phase"], row["failure"]) == ("one", "failed", "etcd ended")
    assert row["components"][0]["name"] == "supervisor"


def _me() -> ProcessRef:
    return ProcessRef.of(os.getpid())


def _write(state: State) -> None:
    directory = instance.directory_of(state.name)
    directory.mkdir(parents=True)
    instance.write_state(directory, state)
