"""The owner's end of a supervisor: start one, tell it what to do, hear what happens.

The owner holds the only writing end of the supervisor's standard input, so the instance ends with
the owner whether or not it gets to say so.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Self, cast

import msgspec

from controlplane import cache, instance
from controlplane.binaries import Variant
from controlplane.components import COMPONENTS, Component
from controlplane.errors import ComponentDiedError, ControlPlaneError
from controlplane.instance import Claim
from controlplane.node.components import ALL
from controlplane.supervisor import Event, Settings

_STOP_SECONDS: Final = 20


class Supervision:
    """A supervisor that belongs to this process until it is detached or stopped."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        name: str,
        log: Path,
        components: Iterable[Component],
    ) -> None:
        self._process = process
        # Both are pipes, always: see start().
        self._commands = cast("IO[bytes]", process.stdin)
        self._output = cast("IO[bytes]", process.stdout)
        self._name = name
        self._components = frozenset(component.name for component in components)
        self._log = log
        self._over = False

    @classmethod
    def start(
        cls,
        held: Claim,
        *,
        programs: Mapping[str, Path],
        flags: Mapping[str, Sequence[str]],
        variant: Variant = Variant.USUAL,
    ) -> Self:
        """Start a supervisor, which takes over the claim's lock."""
        node = variant is Variant.NODE
        log = instance.log_of(held.name)
        source = str(Path(__file__).parents[1])
        search = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "controlplane.supervisor"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                # A session of its own: Ctrl-C in a terminal is for the owner to handle.
                start_new_session=True,
                pass_fds=(held.descriptor,),
                cwd=cache.directory("controlplane", "instances"),
                env={**os.environ, "PYTHONPATH": search},
            )
        supervision = cls(process, name=held.name, log=log, components=ALL if node else COMPONENTS)
        settings = Settings(
            name=held.name,
            directory=str(held.directory),
            programs={name: str(path) for name, path in programs.items()},
            flags={name: list(values) for name, values in flags.items()},
            node=node,
        )
        supervision._send(msgspec.json.encode(settings))
        return supervision

    def wait_for(
        self, kind: str | None, *, report: Callable[[Event], None] = lambda _: None
    ) -> None:
        """Wait for an event (None: for the end); ``report`` hears of all up to it.

        Raises:
            ComponentDiedError: the instance failed meanwhile.
            ControlPlaneError: it was stopped by somebody else.
        """
        for event in self._events():
            report(event)
            if event.kind == kind:
                return
            if event.kind == "failed":
                raise ComponentDiedError(event.subject)
            if event.kind == "stopped" and not event.subject:
                raise ControlPlaneError(f"control plane {self._name} was stopped")

    def stop_component(self, name: str) -> None:
        """End one component and leave the others running."""
        self._command("stop", name)
        self.wait_for("stopped")

    def start_component(self, name: str) -> None:
        """Start a component that was stopped; return when it works again."""
        self._command("start", name)
        self.wait_for("ready" if name in ("etcd", "kube-apiserver") else "started")

    def detach(self) -> None:
        """Let the instance live on after this process."""
        self._send(b"detach")
        self.wait_for("detached")
        self._over = True
        self._close()

    def stop(self) -> None:
        """End the instance and wait until nothing of it runs.

        Raises:
            ComponentDiedError: it had ended before, because a component died.
        """
        if self._over:
            return
        self._over = True
        try:
            self._send(b"quit")
            failure = self._last_failure()
            self._process.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            # Its components get SIGKILL from the kernel at its death.
            self._process.kill()
            self._process.wait()
            failure = ""
        finally:
            self._close()
        if failure:
            raise ComponentDiedError(failure)

    def _last_failure(self) -> str:
        with suppress(ControlPlaneError):
            for event in self._events():
                if event.kind == "failed":
                    return event.subject
                if event.kind == "stopped" and not event.subject:
                    return ""
        return ""

    def _events(self) -> Iterator[Event]:
        for line in self._output:
            yield msgspec.json.decode(line, type=Event)
        raise ControlPlaneError(
            f"the supervisor of control plane {self._name} died: see {self._log}"
        )

    def _command(self, verb: str, component: str) -> None:
        if component not in self._components:
            known = ", ".join(sorted(self._components))
            raise ControlPlaneError(f"no component {component}: {known}")
        self._send(f"{verb} {component}".encode())

    def _send(self, line: bytes) -> None:
        # A supervisor that died is noticed by the reader, which knows why.
        with suppress(BrokenPipeError):
            self._commands.write(line + b"\n")
            self._commands.flush()

    def _close(self) -> None:
        for pipe in (self._commands, self._output):
            with suppress(BrokenPipeError):
                pipe.close()
