"""The cache directory and its locks, held by real processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane import cache

HOLD = """
import sys, time
from pathlib import Path
from controlplane import cache
assert cache.try_lock(Path(sys.argv[1])) is not None
print("held", flush=True)
time.sleep(60)
"""


def test_cache_follows_the_xdg_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    made = cache.directory("go")

    assert made == tmp_path / "penstock" / "go"
    assert made.is_dir()


def test_relative_xdg_variable_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert cache.directory() == tmp_path / ".cache" / "penstock"


def test_held_lock_is_not_given_again(tmp_path: Path) -> None:
    descriptor = cache.try_lock(tmp_path / "lock")
    assert descriptor is not None

    assert cache.try_lock(tmp_path / "lock") is None
    os.close(descriptor)


def test_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(cache.__file__).parents[1]) as (
        holder
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        refused = cache.try_lock(lock)
        holder.kill()

    descriptor = cache.try_lock(lock)

    assert refused is None
    assert descriptor is not None
    os.close(descriptor)


def test_lock_on_a_removed_file_keeps_nobody_out_and_is_not_given(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    first = cache.try_lock(lock)
    assert first is not None

    lock.unlink()
    second = cache.try_lock(lock)

    assert second is not None
    assert os.path.samestat(os.fstat(second), lock.stat())
    os.close(first)
    os.close(second)


def test_asking_for_a_lock_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "left-by-a-killed-holder").touch()

    assert not cache.is_locked(tmp_path / "left-by-a-killed-holder")
    assert not cache.is_locked(tmp_path / "never")
    assert list(tmp_path.iterdir()) == []


def test_asking_for_a_held_lock_does_not_disturb_its_holder(tmp_path: Path) -> None:
    descriptor = cache.try_lock(tmp_path / "lock")
    assert descriptor is not None

    assert cache.is_locked(tmp_path / "lock")
    assert cache.try_lock(tmp_path / "lock") is None
    os.close(descriptor)


def test_waiter_is_told_and_then_gets_its_turn(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    descriptor = cache.try_lock(lock)
    assert descriptor is not None
    told = []

    def give_way() -> None:
        told.append("waiting")
        os.close(descriptor)

    with cache.locked(lock, waiting=give_way):
        meanwhile = cache.try_lock(lock)

    assert told == ["waiting"]
    assert meanwhile is None
