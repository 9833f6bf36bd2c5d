"""Build one Go program into the cache, showing that something moves while it takes minutes.

A program appears under its name only when it is whole: it is linked under a temporary name and
renamed. The build ends with us, however we end, and leaves neither lock nor half a program.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from controlplane import cache, gotool, processes
from controlplane.errors import BuildError

FLAGS: Final = ("build", "-trimpath", "-buildvcs=false", "-v")
PINS: Final = ("go.mod", "go.sum")

_REDRAW_SECONDS: Final = 0.2
# Where go works; a killed one cannot remove it, but the next one who builds here can.
_WORK: Final = ".work"
_SHOWN_LINES: Final = 15


@contextmanager
def turn(directory: Path) -> Iterator[None]:
    """Wait until no other process builds into ``directory``, and keep others out meanwhile."""
    with cache.locked(directory / ".lock", waiting=lambda: _say(f"waiting to build: {directory}")):
        # Only the holder writes here, so what bears a temporary name is a killed build's.
        for leftover in directory.glob(".*.tmp"):
            leftover.unlink()
        work = directory / _WORK
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(exist_ok=True)
        try:
            yield
        finally:
            shutil.rmtree(work, ignore_errors=True)


def build(
    package: str, *, module_directory: Path, stamps: tuple[str, ...], version: str, target: Path
) -> None:
    """Build ``package`` of the module in ``module_directory`` and put it at ``target``.

    Raises:
        BuildError: no toolchain, or the build failed; carries the compiler's last lines.
    """
    temporary = target.with_name(f".{target.name}.tmp")
    linker = " ".join(["-s", "-w", *(_stamp(package, version) for package in stamps)])
    command: list[str | Path] = [
        gotool.find(),
        *FLAGS,
        "-ldflags",
        linker,
        "-o",
        temporary,
        package,
    ]
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        environment = _environment(target.parent / _WORK)
        status = _run(command, module_directory, environment, output, name=target.name)
        if status != 0:
            output.seek(0)
            tail = "".join(output.readlines()[-_SHOWN_LINES:])
            raise BuildError(f"go build {package} ended with status {status}:\n{tail}")
    temporary.rename(target)
    _say(f"built {target.name} {version} in {_elapsed(started)}")


def _stamp(package: str, version: str) -> str:
    major, minor = version.removeprefix("v").split(".")[:2]
    values = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "unknown",
        "gitTreeState": "clean",
    }
    return " ".join(f"-X {package}.{name}={value}" for name, value in values.items())


def _run(
    command: list[str | Path],
    directory: Path,
    environment: Mapping[str, str],
    output: IO[str],
    *,
    name: str,
) -> int:
    process = subprocess.Popen(
        processes.bound_to_us(*command),
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        process_group=0,
    )
    try:
        return _wait(process, output, name=name)
    finally:
        _stop(process)


def _wait(process: subprocess.Popen[bytes], output: IO[str], *, name: str) -> int:
    started = time.monotonic()
    interactive = sys.stderr.isatty()
    if not interactive:
        _say(f"building {name}")
    try:
        while True:
            try:
                return process.wait(timeout=_REDRAW_SECONDS)
            except subprocess.TimeoutExpired:
                if interactive:
                    # -v writes a line for each package that is compiled.
                    packages = os.pread(output.fileno(), 1 << 20, 0).count(b"\n")
                    _redraw(f"building {name}: {packages} packages, {_elapsed(started)}")
    finally:
        if interactive:
            _redraw("")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill what still runs of the build; a signal that go could handle may be ignored by it."""
    if process.poll() is None:
        # The group holds the compilers too.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment(work: Path) -> dict[str, str]:
    """Return an environment in which only go.mod and go.sum decide what is built.

    CGO is off: the programs need no C library, and so this build no C compiler.
    """
    decided = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    return {**os.environ, **decided, "GOTMPDIR": str(work)}


def _elapsed(started: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    return f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _redraw(line: str) -> None:
    sys.stderr.write(f"\r\x1b[K{line}")
    sys.stderr.flush()
