"""The process that holds one instance: it starts the components, watches them and ends them.

It is a process of its own, because children are tied to the *thread* that creates them (see
``processes.bound_to_us``) and callers have threads that come and go. Its owner holds the other
end of its standard input; end of file there, however it comes about, ends the instance, unless
the owner said ``detach`` before. Each component in turn is killed by the kernel if the supervisor
dies. So nothing that may be killed at any moment leaves a process behind.

It reads one JSON line of ``Settings``, then commands (``detach``, ``stop NAME``, ``start NAME``,
``quit``), and writes one JSON ``Event`` a line. It does not decide when an instance begins or ends
and never restarts what died.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

import msgspec

from controlplane import client, instance, layout, processes
from controlplane.components import COMPONENTS, Component
from controlplane.errors import ComponentDiedError, ControlPlaneError
from controlplane.instance import ProcessRef, State
from controlplane.node import components, packages
from controlplane.node import layout as node_layout
from controlplane.node.components import SANDBOX
from controlplane.node.node import Node
from toolkit.net import reserving

START_SECONDS: Final = 90

_SOURCE: Final = Path(__file__).parents[1]

_POLL_SECONDS: Final = 0.03
# Nothing outlives an instance, so a slow farewell has no value.
_TERM_SECONDS: Final = 2
_TAIL_LINES: Final = 8
_TAIL_WIDTH: Final = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run, and where."""

    name: str
    directory: str
    programs: dict[str, str]
    flags: dict[str, list[str]] = field(default_factory=dict)
    """Further flags by component."""
    node: bool = False
    """Whether it gets a real node, in place of the one that kwok plays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line to the owner; ``subject`` is a component, or the failure's text."""

    kind: Literal["started", "ready", "detached", "stopped", "failed"]
    subject: str = ""


@dataclass(slots=True)
class _Running:
    process: asyncio.subprocess.Process
    stopping: bool = False


class _QuitError(Exception):
    """The instance shall end: its owner is gone, or somebody said so."""


class Supervisor:
    """One instance from its first process to its last."""

    def __init__(self, settings: Settings, *, emit: Callable[[Event], None]) -> None:
        self._settings = settings
        self._directory = Path(settings.directory)
        self._emit = emit
        self._running: dict[str, _Running] = {}
        # With --permit-port-sharing the API server binds it too, now and after a restart.
        self._reserved = reserving.reserve(socket.SO_REUSEPORT)
        self._port: int = self._reserved.getsockname()[1]
        self._node: Node | None = None
        self._state = State(
            name=settings.name,
            phase="starting",
            supervisor=ProcessRef.of(os.getpid()),
            server=layout.server(self._port),
            programs=settings.programs,
        )

    async def run(self, commands: "asyncio.Queue[str]") -> str:
        """Run the instance until a command or a failure ends it; return the failure or ""."""
        failure = ""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._obey(commands, group))
                try:
                    await self._boot(group)
                    # From here on only commands and deaths happen; each ends the group.
                    await asyncio.Event().wait()
                finally:
                    await self._stop_all()
        except* _QuitError:
            pass
        except* (ControlPlaneError, OSError) as errors:
            failure = "; ".join(str(error) for error in _leaves(errors))
        try:
            await asyncio.to_thread(instance.remove_node, self._state)
        except ControlPlaneError as error:
            failure = failure or str(error)
        self._leave(failure)
        instance.forget(self._settings.name)
        return failure

    # -- start ---------------------------------------------------------------------------------

    async def _boot(self, group: asyncio.TaskGroup) -> None:
        await self._lay_out()
        # Sockets of etcd have short relative names; an absolute one may exceed 107 bytes.
        os.chdir(self._directory)
        self._save()
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._start_components(group)
        except TimeoutError as exc:
            raise ControlPlaneError(
                f"control plane {self._settings.name} is not ready after {START_SECONDS} s;"
                f" running: {', '.join(self._running)}; logs: {self._directory / 'logs'}"
            ) from exc
        self._state = replace(self._state, phase="ready")
        self._save()
        self._emit(Event(kind="ready"))

    async def _lay_out(self) -> None:
        layout.clear(self._directory)
        write = partial(layout.create, self._directory, name=self._settings.name, port=self._port)
        if not self._settings.node:
            write()
            return
        node = Node(self._directory)
        # Written down before it is taken, so that nothing can be left that nobody knows of.
        self._state = replace(self._state, node=node.reservation)
        self._save()
        await asyncio.to_thread(node.reserve)
        self._state = replace(self._state, node=node.reservation)
        node.lay_out(write(service_address=node.places.api, users=node_layout.USERS))
        self._node = node

    async def _start_components(self, group: asyncio.TaskGroup) -> None:
        etcd, apiserver, *clients = self._control_plane()
        if self._node is not None:
            await self._start_walls(self._node, group)
        await self._start(etcd, group)
        await _until(_etcd_answers)
        await self._start(apiserver, group)
        api = client.Client(port=self._port, pki=Path("pki"))
        await _until(api.is_ready)
        objects = self._objects()
        await _until(lambda: api.create_all(objects))
        for component in clients:
            await self._start(component, group)
        if self._node is not None:
            await self._start_node(self._node, group)
        await _until(api.is_populated)

    async def _start_walls(self, node: Node, group: asyncio.TaskGroup) -> None:
        await self._start(components.HOLDER, group)
        await _until(node.walls_stand)
        sandbox = self._sandbox
        self._state = replace(self._state, first=ProcessRef.of(processes.children(sandbox)[0]))
        await asyncio.to_thread(node.connect, sandbox)
        await self._start(components.RUNTIME, group)

    async def _start_node(self, node: Node, group: asyncio.TaskGroup) -> None:
        await _until(lambda: node.runtime_answers(self._sandbox))
        pause = Path(self._settings.programs["pause"])
        await asyncio.to_thread(node.give_pause_image, self._sandbox, pause)
        for component in components.COMPONENTS_OF_NODE:
            await self._start(component, group)
        # By its ClusterIP: through the link, the rules of kube-proxy and the relay.
        service = client.Client(host=node.places.api, port=components.API_PORT, pki=Path("pki"))
        await _until(service.is_ready)
        await _until(node.resolves)

    def _control_plane(self) -> tuple[Component, ...]:
        if self._node is None:
            return COMPONENTS
        return tuple(
            each.with_flags(components.FLAGS.get(each.name, ()))
            for each in components.CONTROL_PLANE
        )

    def _objects(self) -> list[client.Json]:
        if self._node is None:
            return client.manifests("fake-node.yaml")
        return client.manifests("node.yaml", self._values())

    def _values(self) -> dict[str, str]:
        """Return what stands for the names in braces in flags and manifests."""
        values = {"port": str(self._port), "directory": str(self._directory)}
        if self._node is not None:
            places = self._node.places
            values |= {"services": places.services, "dns": places.dns, "node": places.node}
            values |= {"sandbox": str(self._sandbox)} if SANDBOX in self._running else {}
        return values

    @property
    def _sandbox(self) -> int:
        return self._running[SANDBOX].process.pid

    async def _start(self, component: Component, group: asyncio.TaskGroup) -> None:
        extra = tuple(self._settings.flags.get(component.name, ()))
        flags = component.arguments(self._values(), extra=extra)
        command = (component.program or self._program(component.name), *flags)
        if component.inside:
            command = components.entering(self._sandbox, self._directory, *command)
        with _log_of(component.name).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *processes.bound_to_us(*command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # kwok reads ~/.kwok, the others nothing: nobody's home decides how they behave.
                env={
                    "HOME": str(self._directory),
                    "PATH": packages.SEARCH,
                    "PYTHONPATH": str(_SOURCE),
                },
            )
        self._running[component.name] = _Running(process)
        group.create_task(self._watch(component.name))
        self._save()
        self._emit(Event(kind="started", subject=component.name))

    async def _watch(self, name: str) -> None:
        running = self._running[name]
        status = await running.process.wait()
        del self._running[name]
        if not running.stopping:
            raise ComponentDiedError(
                f"{name} of control plane {self._settings.name} {_describe(status)};"
                f" the last lines of {self._directory / _log_of(name)}:\n{_tail(_log_of(name))}"
            )

    def _program(self, name: str) -> str:
        found = self._node.programs if self._node is not None else {}
        return found.get(name) or self._settings.programs[name]

    # -- commands ------------------------------------------------------------------------------

    async def _obey(self, commands: "asyncio.Queue[str]", group: asyncio.TaskGroup) -> None:
        detached = False
        while True:
            verb, _, name = (await commands.get()).partition(" ")
            match verb:
                case "detach":
                    detached = True
                    self._emit(Event(kind="detached"))
                case "eof" if detached:
                    pass
                case "stop":
                    await self._stop(name)
                    self._save()
                    self._emit(Event(kind="stopped", subject=name))
                case "start":
                    await self._start_again(name, group)
                case _:
                    raise _QuitError

    async def _start_again(self, name: str, group: asyncio.TaskGroup) -> None:
        known = (*self._control_plane(), *components.COMPONENTS_OF_NODE, components.RUNTIME)
        component = next(each for each in known if each.name == name)
        await self._start(component, group)
        if name in ("etcd", "kube-apiserver"):
            await _until(client.Client(port=self._port, pki=Path("pki")).is_ready)
            self._emit(Event(kind="ready"))

    # -- end -----------------------------------------------------------------------------------

    async def _stop_all(self) -> None:
        # etcd last: the API server waits for it, and it for the API server, if they end together.
        first = [name for name in self._running if name != "etcd"]
        await asyncio.gather(*(self._stop(name) for name in first))
        await self._stop("etcd")

    async def _stop(self, name: str) -> None:
        running = self._running.get(name)
        if running is None:
            return
        running.stopping = True
        with contextlib.suppress(ProcessLookupError):
            running.process.terminate()
        try:
            async with asyncio.timeout(_TERM_SECONDS):
                await running.process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                running.process.kill()
            await running.process.wait()

    def _leave(self, failure: str) -> None:
        self._reserved.close()
        if not failure:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._emit(Event(kind="stopped"))
            return
        with contextlib.suppress(OSError):
            layout.remove_all_but_logs(self._directory)
            self._state = replace(self._state, phase="failed", failure=failure)
            self._save()
        self._emit(Event(kind="failed", subject=failure))

    def _save(self) -> None:
        running = {
            name: ProcessRef.of(each.process.pid)
            for name, each in self._running.items()
            if not each.stopping
        }
        self._state = replace(self._state, components=running)
        instance.write_state(self._directory, self._state)


def main() -> None:
    """Run one instance for the process at the other end of standard input."""
    # An owner that closed its end early does not matter: end of file on stdin tells us.
    sys.exit(1 if asyncio.run(_serve()) else 0)


async def _serve() -> str:
    commands: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, commands.put_nowait, "quit")
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        line = await reader.readline()
        if not line:
            return "no settings"
        settings = msgspec.json.decode(line, type=Settings)
        reading = asyncio.create_task(_read(reader, commands))
        try:
            return await Supervisor(settings, emit=_emit).run(commands)
        finally:
            reading.cancel()
    finally:
        transport.close()


async def _read(reader: asyncio.StreamReader, commands: "asyncio.Queue[str]") -> None:
    while line := await reader.readline():
        commands.put_nowait(line.decode().strip())
    commands.put_nowait("eof")


def _emit(event: Event) -> None:
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), msgspec.json.encode(event) + b"\n")


def _etcd_answers() -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect("etcd.sock:0")
        except OSError:
            return False
    return True


async def _until(condition: Callable[[], bool]) -> None:
    # ASYNC110: another process tells nobody when it is ready.
    while not await asyncio.to_thread(condition):  # noqa: ASYNC110
        await asyncio.sleep(_POLL_SECONDS)


def _log_of(name: str) -> Path:
    return Path("logs") / f"{name}.log"


def _tail(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    return "\n".join(f"  {line[:_TAIL_WIDTH]}" for line in lines) or "  (it wrote nothing)"


def _describe(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves


if __name__ == "__main__":
    main()
