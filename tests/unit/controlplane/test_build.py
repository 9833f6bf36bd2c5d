"""Builds with a shell script in place of Go: what appears, and what an interrupt leaves."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane import build
from controlplane.errors import BuildError

SOURCE = Path(build.__file__).parents[1]
BUILD = """
import signal
import sys
from pathlib import Path
from controlplane import build
# Anyone who runs the tests in the background of a shell script ignores it, and so would we.
signal.signal(signal.SIGINT, signal.default_int_handler)
target = Path(sys.argv[1])
with build.turn(target.parent):
    build.build("example.com/x", module_directory=target.parent, stamps=(), version="v1.2.3",
                target=target)
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory that is the first on PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    return directory


def test_program_appears_under_its_name(path: Path, tmp_path: Path) -> None:
    _go(path, 'printf "%s\\n" "$@" > "$output"')

    _build(tmp_path / "program")

    arguments = (tmp_path / "program").read_text().splitlines()
    assert arguments[0] == "build"
    assert arguments[-1] == "example.com/program"
    assert "-trimpath" in arguments


def test_version_is_stamped_into_the_program(path: Path, tmp_path: Path) -> None:
    _go(path, 'printf "%s\\n" "$@" > "$output"')

    _build(tmp_path / "program", stamps=("example.com/version",))

    linker = (tmp_path / "program").read_text()
    assert "-X example.com/version.gitVersion=v1.36.3" in linker
    assert "-X example.com/version.gitMajor=1" in linker
    assert "-X example.com/version.gitMinor=36" in linker


def test_users_go_settings_do_not_decide_what_is_built(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    monkeypatch.setenv("GOWORK", "/elsewhere/go.work")
    _go(path, 'echo "$GOFLAGS|$GOWORK|$GOTOOLCHAIN|$CGO_ENABLED" > "$output"')

    _build(tmp_path / "program")

    assert (tmp_path / "program").read_text() == "|off|local|0\n"


def test_failed_build_tells_the_compilers_last_lines(path: Path, tmp_path: Path) -> None:
    _go(path, 'echo half > "$output"; echo "x.go:1: syntax error" >&2; exit 2')

    with pytest.raises(BuildError, match=r"status 2:\n.*x\.go:1: syntax error"):
        _build(tmp_path / "program")

    assert not (tmp_path / "program").exists()


def test_half_built_program_of_a_killed_build_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".program.tmp").write_text("half")
    (tmp_path / "other").write_text("whole")

    with build.turn(tmp_path):
        pass

    assert sorted(file.name for file in tmp_path.iterdir()) == [".lock", "other"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_build_leaves_no_process_and_no_lock(
    path: Path, tmp_path: Path, number: signal.Signals
) -> None:
    running = tmp_path / "running"
    os.mkfifo(running)
    # SIGINT is ignored by what a shell starts in the background, and by its children.
    _go(path, f"trap '' INT TERM; echo $$ > {running}; exec sleep 60")
    command = [sys.executable, "-c", BUILD, str(tmp_path / "program")]
    with subprocess.Popen(command, cwd=SOURCE, stderr=subprocess.DEVNULL) as builder:
        go = os.pidfd_open(int(running.read_text()))
        builder.send_signal(number)

    with build.turn(tmp_path):
        ended = _ended(go)

    assert ended
    assert sorted(file.name for file in tmp_path.iterdir()) == [".lock", "bin", "running"]


def _build(target: Path, *, stamps: tuple[str, ...] = ()) -> None:
    build.build(
        "example.com/program",
        module_directory=target.parent,
        stamps=stamps,
        version="v1.36.3",
        target=target,
    )


def _go(directory: Path, script: str) -> None:
    """Put a go on PATH that runs ``script`` with ``$output`` set to the value of -o."""
    go = directory / "go"
    go.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = version ]; then echo go version go1.26.0; exit; fi\n'
        'for each in "$@"; do [ "$last" = -o ] && output="$each"; last="$each"; done\n'
        f"{script}\n"
    )
    go.chmod(0o755)


def _ended(descriptor: int) -> bool:
    ready, _, _ = select.select([descriptor], [], [], 10)
    os.close(descriptor)
    return bool(ready)
