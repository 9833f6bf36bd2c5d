"""Build the engine: ``python -m toolkit.native.build`` prints the path of the library.

It is built once for each version of its sources and of Go, and installed atomically. Two concurrent
commands build it once, and an interrupted build leaves no library. Progress goes to standard error.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from toolkit.errors import PenstockError, StalledError
from toolkit.native import library

MINIMUM: Final = (1, 26)

_FLAGS: Final = ("-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-v")
_LIBRARIES: Final = ((library.NAME, ()), (library.NAME_WITH_HELM, ("-tags=helm",)))
_REMEDY: Final = "install Go 1.26 or newer from https://go.dev/dl, and a C compiler"
_SCRATCH: Final = "building-"
_SHOWN_LINES: Final = 20
_REPORT_EVERY: Final = 50


def build() -> Path:
    """Return the library for our sources, or that of a wheel; build it if there is none.

    Raises:
        StalledError: there is no Go toolchain, or the build failed.
    """
    if chosen := os.environ.get("PENSTOCK_ENGINE"):
        return Path(chosen)
    if library.SHIPPED.is_file():
        return library.SHIPPED
    if not library.SOURCES.is_dir():
        raise StalledError(f"no engine sources in {library.SOURCES}: set PENSTOCK_ENGINE")
    with _locked(library.cache_directory() / "lock"):
        built = library.find_built()
        if built is None:
            go, version = _toolchain()
            _report(f"building with {version}; the first time takes a minute or two")
            built = _compile(
                go, library.cache_directory() / f"{library.sources_digest()}-{version}"
            )
            _report("built")
    return built


def _compile(go: str, target: Path) -> Path:
    for leftover in target.parent.glob(f"{_SCRATCH}*"):  # of a build that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    # On one file system with the target, so that the last step is one rename.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=_SCRATCH) as scratch:
        staged = Path(scratch, "staged")
        staged.mkdir()
        environment = _environment(go) | {"CGO_ENABLED": "1"}
        for name, tags in _LIBRARIES:
            _run((go, "build", *_FLAGS, *tags, "-o", str(staged / name), "."), environment)
            staged.joinpath(name).with_suffix(".h").unlink(missing_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        staged.rename(target)
    return target / library.NAME


def _run(command: tuple[str, ...], environment: dict[str, str]) -> None:
    lines: list[str] = []
    with subprocess.Popen(  # noqa: S603  # the toolchain and our own arguments
        command,
        cwd=library.SOURCES,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            lines.append(line)
            _report_progress(len(lines))
    if process.returncode != 0:
        raise StalledError(f"go build failed:\n{''.join(lines[-_SHOWN_LINES:])}{_REMEDY}")


def _toolchain() -> tuple[str, str]:
    on_path = shutil.which("go")
    if on_path is not None and (version := _version(on_path)) is not None:
        return on_path, version
    # The other way to get one belongs to the embedded control plane, which we may not import.
    command = (sys.executable, "-m", "controlplane.gotool")
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603  # our own module
    if found.returncode == 0:
        go = found.stdout.strip()
        if (version := _version(go)) is not None:
            return go, version
    raise StalledError(f"no Go toolchain: {_REMEDY}")


def _version(go: str) -> str | None:
    command = (go, "env", "GOVERSION")
    try:
        answer = subprocess.run(  # noqa: S603  # a toolchain that was found
            command, env=_environment(go), cwd="/", capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    found = re.match(r"go(\d+)\.(\d+)\S*", answer.stdout)
    if found is None or (int(found[1]), int(found[2])) < MINIMUM:
        return None
    return found[0]


def _environment(go: str) -> dict[str, str]:
    # The toolchain is the one that go.mod asks for, and its subprocesses must find Go itself.
    path = f"{Path(go).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "GOTOOLCHAIN": "local", "PATH": path}


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _report("another process is building it: waiting")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _report_progress(packages: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\rengine: {packages} packages\x1b[K")
        sys.stderr.flush()
    elif packages % _REPORT_EVERY == 0:
        _report(f"{packages} packages")


def _report(text: str) -> None:
    start = "\r\x1b[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{start}engine: {text}\n")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{build()}\n")
    except PenstockError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("error: interrupted")
