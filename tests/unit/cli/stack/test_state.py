"""One supervisor per state directory; a record is believed only while that one lives."""

from dataclasses import replace
from pathlib import Path

import pytest

from cli import errors
from cli.stack import state

RECORD = state.Record(
    pid=42, kubeconfig="/kc", namespace="penstock-system", phase="ready", processes={"source-0": 43}
)


def test_second_supervisor_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with (
        state.exclusive(tmp_path),
        pytest.raises(errors.UsageError, match="penstock down"),
        state.exclusive(tmp_path),
    ):
        pass


def test_directory_is_free_again_afterwards(tmp_path: Path) -> None:
    with state.exclusive(tmp_path):
        pass

    with state.exclusive(tmp_path):
        assert state.is_locked(tmp_path)
    assert not state.is_locked(tmp_path)


def test_record_of_a_dead_supervisor_is_not_believed(tmp_path: Path) -> None:
    with state.exclusive(tmp_path):
        state.write(tmp_path, RECORD)
        assert state.running(tmp_path) == RECORD

    assert state.running(tmp_path) is None


def test_damaged_record_is_no_record(tmp_path: Path) -> None:
    with state.exclusive(tmp_path):
        (tmp_path / "up.json").write_text("{")

        assert state.running(tmp_path) is None


def test_directory_that_does_not_exist_is_free(tmp_path: Path) -> None:
    assert not state.is_locked(tmp_path / "nowhere")


def test_directory_can_be_chosen_by_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv(state.VARIABLE, raising=False)
    assert state.default_directory() == tmp_path / "penstock"

    monkeypatch.setenv(state.VARIABLE, "/elsewhere")
    assert state.default_directory() == Path("/elsewhere")


def test_an_up_is_found_by_its_name_wherever_its_state_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv(state.VARIABLE, raising=False)
    place = tmp_path / "elsewhere"
    mine = replace(RECORD, name="../cases")

    with state.exclusive(place), state.named("../cases", place):
        state.write(place, mine)
        found = state.directory_of("../cases")

        with pytest.raises(errors.UsageError, match="no `penstock up --name other` runs here"):
            state.directory_of("other")

    assert found == place
    with pytest.raises(errors.UsageError, match="--state names its directory"):
        state.directory_of("../cases")
