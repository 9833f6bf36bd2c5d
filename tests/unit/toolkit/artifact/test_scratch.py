"""Temporary directories go with their process, also if it is killed."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.artifact import scratch

ROOT = Path(__file__).parents[4]
PRODUCT = ("apiserver", "certs", "cli", "controllers", "controlplane", "toolkit", "webhooks")
# Claims a directory, tells which, and stays until it is killed.
CLAIMANT = """
import sys
from toolkit.artifact import scratch
with scratch.claimed() as directory:
    (directory / "half").mkdir()
    (directory / "half" / "file").write_text("unfinished")
    print(directory, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def claimant(temporary: Path) -> tuple["subprocess.Popen[str]", Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", CLAIMANT],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def test_what_a_killed_process_left_is_gone_when_the_next_starts(temporary: Path) -> None:
    killed, left = claimant(temporary)
    alive, kept = claimant(temporary)
    end(killed)
    assert (left / "half" / "file").exists()

    with scratch.claimed() as mine:
        found = {path.name for path in scratch.parent().iterdir()}

    assert found == {name for path in (kept, mine) for name in (path.name, f"{path.name}.lock")}
    assert (kept / "half" / "file").exists()
    end(alive)
    with scratch.claimed():
        assert not kept.exists()
    assert list(scratch.parent().iterdir()) == []


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_directory_that_others_can_enter_is_refused(temporary: Path, mode: int) -> None:
    taken = temporary / f"penstock-{os.getuid()}"
    taken.mkdir()
    taken.chmod(mode)

    with pytest.raises(PermissionError, match="is not a directory of this user alone"):
        scratch.parent()


def test_link_in_place_of_the_directory_is_refused(temporary: Path) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (temporary / f"penstock-{os.getuid()}").symlink_to(elsewhere)

    with pytest.raises(PermissionError, match="is not a directory of this user alone"):
        scratch.parent()


def test_nothing_else_makes_directories_below_tmp() -> None:
    """Code that needs one claims it, or names its parent."""
    makers = {"mkdtemp", "mkstemp", "TemporaryDirectory", "NamedTemporaryFile"}
    loose = [
        f"{file.relative_to(ROOT)}:{call.lineno}"
        for package in PRODUCT
        for file in (ROOT / package).rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in makers
        and not any(word.arg == "dir" for word in call.keywords)
    ]

    assert loose == []
