"""What tests on a real node share: whether there can be one, what it leaves, an image to run."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controlplane import instance, plane
from controlplane.errors import NodeUnavailableError
from controlplane.node import cgroups, image, packages
from controlplane.plane import ControlPlane
from tests.tools import programs

FIXTURES: Final = frozenset({"real_node"})
"""Fixtures that need the programs of a node."""

IMAGE: Final = "penstock.dev/podprobe:1"

_NAMESPACES: Final = ("mnt", "net", "pid")


def unavailable() -> str:
    """Return why no node can run here, or nothing."""
    if os.environ.get(plane.EXISTING):
        return "it is about the embedded control plane"
    try:
        packages.find()
    except NodeUnavailableError as error:
        return str(error)
    return ""


def load_probe(running: ControlPlane, directory: Path) -> None:
    """Give the node an image of ``podprobe``; ``directory`` is for the archive."""
    archive = directory / "podprobe.tar"
    content = {"/podprobe": programs.path("podprobe").read_bytes()}
    archive.write_bytes(image.archive(IMAGE, content, entrypoint=["/podprobe"]))
    running.load(archive)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """By what a node can be found on the machine, taken while it runs."""

    directory: Path
    handle: str
    block: str
    namespaces: frozenset[str]

    @classmethod
    def of(cls, name: str) -> "Traces":
        """Take down what the node of an instance holds."""
        state = instance.read_state(name)
        assert state is not None
        assert state.node is not None
        assert state.first is not None
        return cls(
            directory=instance.directory_of(name),
            handle=state.node.handle,
            block=state.node.block,
            namespaces=frozenset(_namespaces(Path(f"/proc/{state.first.pid}"))),
        )

    def left(self) -> list[str]:
        """Return what is still there: processes, links, routes, mounts, cgroups, files."""
        found = [str(self.directory)] if self.directory.exists() else []
        found += [f"process {path.name}" for path in self._processes()]
        found += _lines_with(self.handle, "ip", "-oneline", "link")
        found += _lines_with(self.block, "ip", "route", "show", "table", "all")
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found += [line for line in mounts if self.handle in line or str(self.directory) in line]
        return found + [str(path) for path in cgroups.ROOT.rglob(f"{self.handle}*")]

    def _processes(self) -> Iterator[Path]:
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (path / "cmdline").read_bytes()
                inside = self.namespaces.intersection(_namespaces(path))
                if inside or str(self.directory).encode() in command:
                    yield path


def machine() -> dict[str, str]:
    """Return what a node must leave as it found it: rules, settings, folders of the system."""
    settings = ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom")
    seen = {name: Path("/proc/sys", name).read_text() for name in settings}
    seen["net/ipv4/ip_forward"] = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    seen["iptables"] = "\n".join(_lines_with("-A ", "iptables-save"))
    for folder in ("/etc", "/opt", "/run", "/var/lib", "/var/log", "/usr/libexec"):
        seen[folder] = " ".join(sorted(path.name for path in Path(folder).iterdir()))
    return seen


def _namespaces(process: Path) -> Iterator[str]:
    for name in _NAMESPACES:
        yield str((process / "ns" / name).readlink())


def _lines_with(text: str, *command: str) -> list[str]:
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": packages.SEARCH},
    )
    return [line for line in answer.stdout.splitlines() if text in line]
