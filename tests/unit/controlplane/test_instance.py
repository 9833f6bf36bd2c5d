"""Names, locks and state files of instances."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane import instance
from controlplane.errors import ControlPlaneError, InstanceRunningError
from controlplane.instance import ProcessRef, State


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_name_is_held_by_one_at_a_time() -> None:
    with (
        instance.claim("one"),
        pytest.raises(InstanceRunningError, match="named one is running"),
        instance.claim("one"),
    ):
        pass


def test_name_is_free_again_afterwards() -> None:
    with instance.claim("one"):
        held = instance.is_running("one")

    assert held
    assert not instance.is_running("one")


def test_first_free_alternative_is_taken() -> None:
    with (
        instance.claim("run"),
        instance.claim("run", alternatives=2) as second,
        instance.claim("run", alternatives=2) as third,
    ):
        assert (second.name, third.name) == ("run-2", "run-3")


@pytest.mark.parametrize("name", ["", "..", "a/b", "UPPER", "-a", "a\n", "a" * 51])
def test_name_that_is_no_directory_name_is_refused(name: str) -> None:
    with pytest.raises(ControlPlaneError, match="cannot name a control plane"):
        instance.directory_of(name)


def test_state_is_read_as_it_was_written() -> None:
    state = _state(os.getpid())
    _write(state)

    assert instance.read_state("one") == state
    assert instance.names() == ("one",)


def test_unknown_instance_has_no_state() -> None:
    assert instance.read_state("unknown") is None


def test_damaged_state_is_named() -> None:
    _write(_state(os.getpid()))
    (instance.directory_of("one") / instance.STATE).write_text("{")

    with pytest.raises(ControlPlaneError, match="control plane one is damaged"):
        instance.read_state("one")


def test_number_used_again_is_not_the_process_of_before() -> None:
    mine = ProcessRef.of(os.getpid())

    assert mine.alive
    assert not ProcessRef(pid=mine.pid, started=mine.started - 1).alive


def test_stopping_what_died_removes_what_it_left() -> None:
    _write(_state(os.getpid()))

    assert instance.stop("one") is False
    assert not instance.directory_of("one").exists()


def test_sweeping_removes_the_dead_and_keeps_the_running_and_the_failed() -> None:
    for name, phase in (("dead", "ready"), ("alive", "ready"), ("failed", "failed")):
        _write(replace(_state(os.getpid(), started=1), name=name, phase=phase))

    with instance.claim("alive"):
        instance.sweep()

    assert instance.names() == ("alive", "failed")


def test_nobody_is_signalled_for_a_state_that_another_process_left() -> None:
    # The supervisor's number now belongs to us, and somebody is just starting under its name.
    _write(_state(os.getpid(), started=1))

    with (
        instance.claim("one"),
        pytest.raises(ControlPlaneError, match="just starting or stopping"),
    ):
        instance.stop("one")


def _state(pid: int, *, started: int | None = None) -> State:
    process = ProcessRef.of(pid) if started is None else ProcessRef(pid=pid, started=started)
    return State(name="one", phase="ready", supervisor=process, components={"etcd": process})


def _write(state: State) -> None:
    directory = instance.directory_of(state.name)
    directory.mkdir(parents=True, exist_ok=True)
    instance.write_state(directory, state)
