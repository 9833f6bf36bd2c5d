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
from toolkit.compiling.estimate import Cost

SOURCE = Path(build.__file__).parents[1]
BUILD = """
import signal
import sys
from pathlib import Path
from controlplane import build
from toolkit.compiling.estimate import Cost
# Anyone who runs the tests in the background of a shell script ignores it, and so would we.
signal.signal(signal.SIGINT, signal.default_int_handler)
target = Path(sys.argv[1])
with build.turn(target.parent):
    build.build(build.Batch(
        targets=[build.Target(package="example.com/x", path=target)],
        module_directory=target.parent, name="x", cost=Cost(1, 1)))
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

    _build(tmp_path / "program", linker=build.stamps("example.com/version", "v1.37.1"))

    linker = (tmp_path / "program").read_text()
    assert "-X example.com/version.gitVersion=v1.37.1" in linker
    assert "-X example.com/version.gitMajor=1" in linker
    assert "-X example.com/version.gitMinor=37" in linker


def test_programs_of_one_module_are_built_in_one_go(path: Path, tmp_path: Path) -> None:
    _go(path, 'for each in one server; do echo "$each $@" > "$output/$each"; done')
    packages = {"first": "example.com/cmd/one", "second": "example.com/server/v3"}
    targets = [build.Target(package=name, path=tmp_path / to) for to, name in packages.items()]

    with build.turn(tmp_path):
        build.build(
            build.Batch(targets=targets, module_directory=tmp_path, name="both", cost=Cost(2, 2))
        )

    assert (tmp_path / "first").read_text().startswith("one build ")
    assert (tmp_path / "second").read_text().startswith("server build ")
    assert (tmp_path / "first").read_text().endswith("example.com/cmd/one example.com/server/v3\n")


@pytest.mark.parametrize(("static", "expected"), [(False, "1"), (True, "0")])
def test_program_for_a_container_needs_no_c_library(
    path: Path, tmp_path: Path, *, static: bool, expected: str
) -> None:
    _go(path, 'echo "$CGO_ENABLED" > "$output"')

    _build(tmp_path / "program", static=static)

    assert (tmp_path / "program").read_text().strip() == expected


def test_users_go_settings_do_not_decide_what_is_built(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    monkeypatch.setenv("GOWORK", "/elsewhere/go.work")
    _go(path, 'echo "$GOFLAGS|$GOWORK|$GOTOOLCHAIN|$CGO_ENABLED" > "$output"')

    _build(tmp_path / "program")

    assert (tmp_path / "program").read_text() == "|off|local|1\n"


def test_failed_build_tells_the_compilers_last_lines(path: Path, tmp_path: Path) -> None:
    _go(path, 'echo half > "$output"; echo "x.go:1: syntax error" >&2; exit 2')

    with pytest.raises(BuildError, match=r"cannot build program: \nx\.go:1: syntax error"):
        _build(tmp_path / "program")

    assert not (tmp_path / "program").exists()


def test_half_built_program_of_a_killed_build_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".work" / "linked").mkdir(parents=True)
    (tmp_path / ".work" / "linked" / "program").write_text("half")
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


def _build(target: Path, *, linker: tuple[str, ...] = (), static: bool = False) -> None:
    with build.turn(target.parent):
        build.build(
            build.Batch(
                targets=[build.Target(package="example.com/program", path=target)],
                module_directory=target.parent,
                name="program",
                cost=Cost(1, 1),
                linker=linker,
                static=static,
            )
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
