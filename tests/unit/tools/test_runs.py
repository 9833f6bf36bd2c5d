"""What a run of tests prints, and when it ends early, seen from outside."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PLUGINS = ("-p", "tests.tools.progress", "-p", "tests.tools.health", "-p", "no:cacheprovider")
WORKERS = pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist=loadfile")], ids=["0", "2"])


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a directory with our plugins and nothing else of this repository."""
    (directory / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", *PLUGINS, *arguments, "."]
    return subprocess.run(
        command,
        cwd=directory,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def write(directory: Path, *, healthy: bool) -> None:
    """Write three tests that share a thing; the first one fails."""
    check = "None" if healthy else "(_ for _ in ()).throw(health.BrokenError('it is gone'))"
    (directory / "conftest.py").write_text(
        f"""
import pytest
from tests.tools import health

@pytest.fixture(scope="session")
def shared():
    with health.shared("the thing", lambda: {check}):
        yield
"""
    )
    (directory / "test_one.py").write_text(
        """
def test_first(shared): assert False
def test_second(shared): pass
def test_third(shared): pass
"""
    )


@WORKERS
def test_a_run_ends_when_what_tests_share_is_broken(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    write(tmp_path, healthy=False)

    done = run(tmp_path, *workers)

    assert done.returncode == 2
    assert "the thing is broken: it is gone" in done.stdout
    assert "1 failed" in done.stdout
    assert "passed" not in done.stdout


@WORKERS
def test_a_run_goes_on_when_what_tests_share_works(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    write(tmp_path, healthy=True)

    done = run(tmp_path, *workers)

    assert done.returncode == 1
    assert "1 failed, 2 passed" in done.stdout


@WORKERS
def test_a_run_names_failures_at_once_and_ends_with_seconds_per_folder(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    write(tmp_path, healthy=True)

    shown = run(tmp_path, *workers).stdout

    assert "FAILED in call: test_one.py::test_first" in shown
    assert shown.index("FAILED in call") < shown.index("100 %")
    summary = shown.partition("seconds per folder")[2].splitlines()
    assert summary[1].split()[1:] == ["3", "."]
