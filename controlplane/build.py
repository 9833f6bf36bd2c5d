"""Build Go programs into the cache, in one run of the compiler for all of one module.

A program appears under its name only when it is whole: it is linked in a directory apart and
renamed. The build ends with us, however we end, and leaves neither lock nor half a program.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controlplane import cache, gotool, processes
from controlplane.errors import BuildError
from toolkit.compiling import flags, running
from toolkit.compiling.estimate import Cost
from toolkit.errors import StalledError

PINS: Final = ("go.mod", "go.sum")

# Where go works; a killed one cannot remove it, but the next one who builds here can.
_WORK: Final = ".work"
_LINKED: Final = "linked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A package with a ``main``, and the path of the program to make of it."""

    package: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Programs of one module that are built in one go, into one directory."""

    targets: Sequence[Target]
    module_directory: Path
    name: str
    """What the user reads."""
    cost: Cost
    linker: tuple[str, ...] = ()
    static: bool = False


@contextmanager
def turn(directory: Path) -> Iterator[None]:
    """Wait until no other process builds into ``directory``, and keep others out meanwhile."""
    with cache.locked(
        directory / ".lock", waiting=lambda: running.say(f"waiting to build: {directory}")
    ):
        # Only the holder writes here, so what is there is a killed build's.
        work = directory / _WORK
        shutil.rmtree(work, ignore_errors=True)
        work.joinpath(_LINKED).mkdir(parents=True)
        try:
            yield
        finally:
            shutil.rmtree(work, ignore_errors=True)


def build(batch: Batch) -> None:
    """Build the programs of a batch and put each at its path.

    Raises:
        BuildError: no toolchain, or the build failed; carries the cause and its remedy.
    """
    targets = batch.targets
    work = targets[0].path.parent / _WORK
    linked = work / _LINKED
    several = len(targets) > 1
    made = [linked / (executable(each.package) if several else each.path.name) for each in targets]
    output = linked if several else made[0]
    mode = flags.build(flags.STATIC if batch.static else flags.PROGRAM, linker=batch.linker)
    packages = [each.package for each in targets]
    command: list[str | Path] = [gotool.find(), *mode, "-o", output, *packages]
    try:
        running.run(
            processes.bound_to_us(*command),
            directory=batch.module_directory,
            environment={
                **os.environ,
                **flags.environment(static=batch.static),
                "GOTMPDIR": str(work),
            },
            name=batch.name,
            cost=batch.cost,
        )
    except StalledError as error:
        raise BuildError(str(error)) from error
    for program, target in zip(made, targets, strict=True):
        program.rename(target.path)


def executable(package: str) -> str:
    """Return how go names the program of a package: the last name that is no major version."""
    names = [name for name in package.split("/") if not re.fullmatch(r"v\d+", name)]
    return names[-1]


def identity(*, static: bool = False) -> str:
    """Return what decides a build beside pins and sources: flags and platform."""
    uname = os.uname()
    mode = flags.STATIC if static else flags.PROGRAM
    return repr((flags.build(mode), uname.machine, uname.sysname))


def stamps(package: str, version: str) -> tuple[str, ...]:
    """Return the flags of the linker that set the version which a package tells."""
    major, minor = version.removeprefix("v").split(".")[:2]
    values = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "unknown",
        "gitTreeState": "clean",
    }
    return tuple(f"-X {package}.{name}={value}" for name, value in values.items())
