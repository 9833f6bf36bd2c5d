"""The wheel of this checkout, installed by uv as users install it, in an environment of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from release import platformwheel

UNREACHABLE = ("Failed to fetch", "dns error", "error sending request")


@dataclass(frozen=True)
class Installed:
    """The command in an environment of its own, run from an empty directory."""

    program: Path
    home: Path

    def environment(self, **more: str) -> Mapping[str, str]:
        return {"PATH": os.defpath, "HOME": str(self.home), **more}

    def run(self, *arguments: str) -> str:
        """Return what the command prints; it succeeds."""
        answer = subprocess.run(
            [self.program, *arguments],
            env=self.environment(),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout


def build(directory: Path) -> Path:
    """Build the wheel into a directory."""
    built = platformwheel.build()
    path = directory / built.name
    path.write_bytes(built.content)
    return path


def install(wheel: Path, python: str, directory: Path) -> Installed:
    """Install the wheel as a tool; packages come from uv's cache where it has them."""
    uv = Path(sys.executable).with_name("uv")
    places = {
        "UV_TOOL_DIR": str(directory / "tools"),
        "UV_TOOL_BIN_DIR": str(directory / "bin"),
    }
    answer = subprocess.run(
        [uv, "tool", "install", "--python", python, wheel],
        env={**os.environ, **places},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if any(sign in answer.stderr for sign in UNREACHABLE):
        pytest.skip(f"no package registry is reachable: {answer.stderr.splitlines()[0]}")
    assert answer.returncode == 0, answer.stderr
    home = directory / "home"
    home.mkdir()
    return Installed(program=directory / "bin" / "penstock", home=home)
