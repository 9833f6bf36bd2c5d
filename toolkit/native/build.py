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

from toolkit.compiling import estimate, flags, running
from toolkit.errors import PenstockError, StalledError
from toolkit.native import library

MINIMUM: Final = (1, 26)

_LIBRARIES: Final = ((library.NAME, ()), (library.NAME_WITH_HELM, ("-tags=helm",)))
_REMEDY: Final = "install Go 1.26 or newer from https://go.dev/dl, and a C compiler"
_SCRATCH: Final = "building-"


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
            built = _compile(
                go, library.cache_directory() / f"{library.sources_digest()}-{version}"
            )
    return built


def _compile(go: str, target: Path) -> Path:
    for leftover in target.parent.glob(f"{_SCRATCH}*"):  # of a build that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    # On one file system with the target, so that the last step is one rename.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=_SCRATCH) as scratch:
        staged = Path(scratch, "staged")
        staged.mkdir()
        environment = _environment(go) | flags.environment()
        for name, tags in _LIBRARIES:
            running.run(
                (go, *flags.build(flags.LIBRARY), *tags, "-o", staged / name, "."),
                directory=library.SOURCES,
                environment=environment,
                name=name,
                cost=estimate.of((name,)),
            )
            staged.joinpath(name).with_suffix(".h").unlink(missing_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        staged.rename(target)
    return target / library.NAME


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
            running.say("another process is building the engine: waiting")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{build()}\n")
    except PenstockError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("error: interrupted")
