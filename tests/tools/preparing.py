"""Build the programs that the selected tests need, while the tests that need none already run.

One process beside the tests builds them in the order in which they are needed, and says how far it
is. A test waits for its programs before its own time begins to count. What no selected test needs
is not built. ``pyproject.toml`` loads this plugin for every run.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pytest
from _pytest.capture import CaptureManager

from controlplane import binaries, plane, processes
from controlplane.binaries import Variant
from controlplane.errors import BuildError
from tests.tools import programs, realnode
from tests.tools.azurite import install
from toolkit.compiling import estimate, running

_NICE: Final = 10
"""Tests go first; the build takes what they leave of the processors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Something to build, and the fixtures whose tests wait for it."""

    name: str
    fixtures: frozenset[str]
    missing: Callable[[], tuple[str, ...]]
    """Names the programs that are not there yet."""
    build: Callable[[], object]


def _plane(variant: Variant, *fixtures: str) -> Part:
    names = ("kubectl",) if os.environ.get(plane.EXISTING) else ()
    return Part(
        name=f"control plane ({variant})",
        fixtures=frozenset(fixtures),
        missing=lambda: tuple(
            name for name in binaries.missing(variant) if not names or name in names
        ),
        build=lambda: binaries.locate(*names, variant=variant),
    )


def _program(name: str) -> Part:
    fixtures = {f"{name.replace('-', '_')}_program", *_DYNAMIC.get(name, ())}
    return Part(
        name=name,
        fixtures=frozenset(fixtures),
        missing=lambda: () if programs.built(name).is_file() else (name,),
        build=lambda: programs.path(name),
    )


_DYNAMIC: Final = {
    # Fixtures that choose others by their parameter.
    "versitygw": ("object_server", "space"),
    "fake-gcs-server": ("object_server",),
    "podprobe": tuple(realnode.FIXTURES),
}

PARTS: Final = (
    # In the order of the run: unit and loopback tests need the first ones.
    *(_program(name) for name in programs.PROGRAMS),
    Part(
        name="azurite",
        fixtures=frozenset({"azurite", "azure", "object_server"}),
        missing=lambda: () if install.installed() else ("azurite",),
        build=install.command,
    ),
    _plane(Variant.USUAL, "control_plane", "second_control_plane", "control_plane_programs"),
    _plane(Variant.NODE, *realnode.FIXTURES),
    _plane(Variant.OLDEST, "oldest_programs"),
)


def needed(fixtures: Iterable[str]) -> tuple[Part, ...]:
    """Return the parts that tests with these fixtures wait for."""
    asked = set(fixtures)
    node = bool(asked & realnode.FIXTURES) and not realnode.unavailable()
    return tuple(
        part
        for part in PARTS
        if part.fixtures & asked and (node or not part.fixtures <= realnode.FIXTURES)
    )


def announcement(missing: tuple[str, ...], *, processors: int) -> str:
    """Return the line that says what is built, and for how long."""
    seconds = estimate.of(missing).seconds / processors
    return (
        f"► building {', '.join(missing)}: about {estimate.duration(seconds)} on {processors}"
        " idle processors, beside the tests that need none of them"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Say what is missing, and begin to build it in the order in which tests need it."""
    worker = getattr(session.config, "workerinput", {"workerid": "gw0"})["workerid"]
    # Every worker collects the same tests.
    if session.config.option.collectonly or worker != "gw0":
        return
    wanted = needed(name for item in session.items for name in _fixtures(item))
    missing = tuple(name for part in wanted for name in part.missing())
    if missing:
        names = [part.name for part in wanted if part.missing()]
        command = (sys.executable, "-m", "tests.tools.preparing", *names)
        # It must be seen, and no test may capture it.
        with _capture(session.config).global_and_fixture_disabled():
            running.say(announcement(missing, processors=os.cpu_count() or 1))
            session.config.stash[_BUILDER] = subprocess.Popen(processes.bound_to_us(*command))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Wait for what a test needs, before its timeout begins."""
    for part in needed(_fixtures(item)):
        if part.name not in _READY:
            # A failure is the fixture's, which tries again and has a report.
            with (
                _capture(item.config).global_and_fixture_disabled(),
                suppress(BuildError, subprocess.CalledProcessError),
            ):
                part.build()
            _READY.add(part.name)
    return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the build with the run; the next one goes on where it was."""
    builder = config.stash.get(_BUILDER, None)
    if builder is not None:
        builder.terminate()
        builder.wait()


_BUILDER: Final = pytest.StashKey[subprocess.Popen[bytes]]()
_READY: Final[set[str]] = set()


def _fixtures(item: pytest.Item) -> Iterable[str]:
    return getattr(item, "fixturenames", ())


def _capture(config: pytest.Config) -> CaptureManager:
    found = config.pluginmanager.getplugin("capturemanager")
    assert isinstance(found, CaptureManager)
    return found


def main(names: Iterable[str]) -> int:
    """Build parts after each other, or every test program; return 1 if one cannot be built."""
    chosen = tuple(names)
    failed = False
    for part in PARTS:
        if part.name in chosen or (not chosen and not part.name.startswith("control plane")):
            try:
                part.build()
            except (BuildError, subprocess.CalledProcessError) as error:
                running.say(f"error: {error}")
                failed = True
    return int(failed)


if __name__ == "__main__":
    os.nice(_NICE)
    sys.exit(main(sys.argv[1:]))
