"""The whole of Penstock as supervised processes against one API server.

``start`` is the story: install as administrator, then tokens, then one process per component and
replica, each under its own service account. What a component is stands in ``cli.stack.COMPONENTS``.

::

    start(kubeconfig, *, state, options=Options()) -> async context manager of a Stack
    Options(namespace="penstock-system", replicas=1, components=CONTROLLERS or EVERYTHING,
            flags={component: [argument, ...]}, env={}, context="", report=print)

    stack.storage_address            host:port of the (first) artifact server
    stack.plan_addresses             host:port of what makes plans, by component
    stack.names                      ("source-0", "kustomize-0", ...)
    stack.pids() -> {name: pid}      the running ones
    stack.log(component, replica=0) -> Path
    stack.kubeconfig(component) -> Path        what this component's processes use
    await stack.kill(component, SIGKILL, replica=0)   the supervisor starts it again
    await stack.stop(component, replica=0)            SIGTERM, waits, stays down
    await stack.restart(component, replica=0, flags=None, env=None)   stops, starts, waits ready
    await stack.wait_ready(component, replica=None)   any replica, or the given one
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

import aiohttp

from apiserver import registration
from cli import errors
from cli.stack import COMPONENTS, install, kubeconfigs, processes, tokens
from cli.stack.components import Component, Neighbours, Ports
from cli.stack.probing import Probe
from crds import KINDS
from toolkit.kube import client, config, rbac
from toolkit.kube.errors import ApiError
from toolkit.net import reserving
from webhooks import arming, configuration, definitions, plugins

READY_WITHIN: Final = 60.0
CONTROLLERS: Final = tuple(c.name for c in COMPONENTS if not c.asked_by_api_server)
"""Components that can use any cluster."""
EVERYTHING: Final = tuple(c.name for c in COMPONENTS)
"""Components that need an API server on this machine."""
NAMESPACE: Final = rbac.NAMESPACE
_LOOK: Final = 0.05
_ANYWHERE: Final = configuration.Target(namespace=NAMESPACE)
_FAREWELL: Final = 20.0
"""Timeout in seconds for unregistering at an API server, which may have ended itself."""
_KEEPER_LIFETIME: Final = 30 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a stack.

    ``flags`` are extra arguments by component name, ``env`` extra variables for all processes.
    """

    namespace: str = NAMESPACE
    replicas: int = 1
    components: tuple[str, ...] = CONTROLLERS
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    context: str = ""
    probe: Probe = field(default_factory=Probe)
    report: Callable[[str], None] = print


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The paths below the state directory."""

    state: Path

    def token(self, account: str) -> Path:
        """Return the token file of a service account."""
        return self.state / "tokens" / account

    def kubeconfig(self, account: str) -> Path:
        """Return the kubeconfig of a service account."""
        return self.state / "kubeconfigs" / f"{account}.yaml"

    def log(self, name: str) -> Path:
        """Return the log file of a process."""
        return self.state / "logs" / f"{name}.log"

    @property
    def storage(self) -> Path:
        """The artifact directory, shared by the replicas as a volume would be."""
        return self.state / "storage"

    @classmethod
    def prepare(cls, state: Path) -> "Layout":
        """Make the directories, readable by their owner only."""
        layout = cls(state=state.absolute())
        for name in ("tokens", "kubeconfigs", "logs", "storage"):
            (layout.state / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        return layout


@dataclass(slots=True, kw_only=True)
class _Replica:
    component: Component
    number: int
    ports: Ports
    process: processes.SupervisedProcess
    task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.process.spec.name


class Stack:
    """The running processes; made by ``start``."""

    def __init__(
        self,
        layout: Layout,
        options: Options,
        *,
        group: asyncio.TaskGroup,
        session: aiohttp.ClientSession,
        held: contextlib.ExitStack,
    ) -> None:
        """Prepare; ``held`` keeps the ports for as long as a process may be started again."""
        self.layout = layout
        self.options = options
        self._flags = {name: tuple(extra) for name, extra in options.flags.items()}
        self._env = dict(options.env)
        self._group = group
        self._session = session
        self._held = held
        self._running: dict[tuple[str, int], _Replica] = {}

    @property
    def storage_address(self) -> str:
        """``host:port`` under which the first artifact server is reached."""
        servers = [r for r in self._running.values() if r.component.stores_artifacts]
        if not servers:
            raise errors.UsageError("no component of this stack serves artifacts")
        return f"127.0.0.1:{servers[0].ports.storage}"

    @property
    def hooks_address(self) -> str:
        """``host:port`` under which hooks are taken."""
        return f"127.0.0.1:{self._running['notification', 0].ports.hooks}"

    @property
    def events_address(self) -> str:
        """``host:port`` under which events are taken."""
        return self._neighbours().events

    def addresses(self) -> dict[str, str]:
        """Return the URLs of what this stack serves to others: for people, by what it is."""
        found: dict[str, str] = {}
        for replica in self._running.values():
            component, ports = replica.component, replica.ports
            if component.takes_events:
                found.setdefault("receivers", f"http://127.0.0.1:{ports.hooks}")
            if component.stores_artifacts:
                found.setdefault("artifacts", f"http://127.0.0.1:{ports.storage}")
            found[f"metrics of {replica.name}"] = f"http://127.0.0.1:{ports.metrics}/metrics"
        return found

    @property
    def plan_addresses(self) -> Mapping[str, str]:
        """``host:port`` of those that make plans, by component: of each the first one."""
        return self._neighbours().plans

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all processes, whether they run or not."""
        return tuple(replica.name for replica in self._running.values())

    def pids(self) -> dict[str, int]:
        """Return name and id of the processes that run now."""
        found = ((r.name, r.process.pid) for r in self._running.values())
        return {name: pid for name, pid in found if pid is not None}

    def log(self, component: str, *, replica: int = 0) -> Path:
        """Return the log file of one process."""
        return self.layout.log(f"{component}-{replica}")

    def health(self, component: str, *, replica: int = 0) -> str:
        """Return the base URL of the health endpoints of one process."""
        return self._running[component, replica].process.spec.health

    def metrics(self, component: str, *, replica: int = 0) -> str:
        """Return the URL of the metrics of one process."""
        return f"http://127.0.0.1:{self._running[component, replica].ports.metrics}/metrics"

    def kubeconfig(self, component: str) -> Path:
        """Return the kubeconfig that the processes of this component use."""
        return self.layout.kubeconfig(_component(component).service_account)

    def starts(self, component: str, *, replica: int = 0) -> int:
        """Return how often this process was started since it was last requested."""
        return self._running[component, replica].process.starts

    async def kill(
        self, component: str, number: signal.Signals = signal.SIGKILL, *, replica: int = 0
    ) -> None:
        """Send a signal to one process; when it ends, the supervisor starts it again."""
        self._running[component, replica].process.kill(number)

    async def stop(self, component: str, *, replica: int = 0) -> None:
        """End one process gracefully; it stays down until ``restart``."""
        current = self._running[component, replica]
        await current.process.stop()
        if current.task is not None:
            await current.task

    async def restart(
        self,
        component: str,
        *,
        replica: int = 0,
        flags: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Stop one process and start it again, on its old ports; return once it is ready."""
        await self.stop(component, replica=replica)
        if flags is not None:
            self._flags[component] = tuple(flags)
        self._env.update(env or {})
        self.launch(_component(component), replica)
        await self.wait_ready(component, replica=replica)

    async def wait_ready(
        self, component: str, *, replica: int | None = None, within: float = READY_WITHIN
    ) -> None:
        """Return once one replica, or the given one, answers ready.

        Raises:
            FailedError: it ends as soon as it is started.
            DeadlineError: none did within so many seconds; the message ends with its log.
        """
        chosen = [
            r
            for (name, number), r in self._running.items()
            if name == component and replica in (None, number)
        ]
        waits = [asyncio.ensure_future(r.process.wait_ready(self._session)) for r in chosen]
        try:
            done, _ = await asyncio.wait(waits, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        for wait in done:
            wait.result()
        if not done:
            log = chosen[0].process.spec.log
            raise errors.DeadlineError(
                f"{component} was not ready within {within:.0f}s; the end of {log}:\n"
                f"{processes.last_lines(log)}"
            )

    async def wait_armed(self, component: str, *, within: float = READY_WITHIN) -> None:
        """Wait until the API server has the registration of this component.

        Raises:
            DeadlineError: it takes longer than ``within`` seconds; the message ends with its log.
        """
        wanted = _registered(_component(component))
        try:
            async with asyncio.timeout(within):
                while True:
                    async with self._session.get(self.metrics(component)) as response:
                        lines = (await response.text()).splitlines()
                    if all(line in lines for line in wanted):
                        return
                    await asyncio.sleep(_LOOK)
        except TimeoutError as exc:
            log = self.log(component)
            raise errors.DeadlineError(
                f"{component} was not armed within {within:.0f}s; the end of {log}:\n"
                f"{processes.last_lines(log)}"
            ) from exc

    def launch(self, component: Component, number: int) -> None:
        """Start one replica, on its old ports if it ran before."""
        previous = self._running.get((component.name, number))
        ports = previous.ports if previous else _ports(self._held)
        name = f"{component.name}-{number}"
        spec = processes.ProcessSpec(
            name=name,
            argv=component.command(
                ports=ports,
                storage=self.layout.storage,
                replicas=self.options.replicas,
                flags=self._flags.get(component.name, ()),
                neighbours=self._neighbours(),
            ),
            env=component.environment(
                {**os.environ, **self._env},
                root=install.ROOT,
                kubeconfig=self.layout.kubeconfig(component.service_account),
                namespace=self.options.namespace,
            ),
            log=self.layout.log(name),
            health=f"http://127.0.0.1:{ports.health}",
            probe=self.options.probe,
        )
        process = processes.SupervisedProcess(spec, report=self.options.report)
        task = self._group.create_task(process.run(), name=name)
        self._running[component.name, number] = _Replica(
            component=component, number=number, ports=ports, process=process, task=task
        )

    def _neighbours(self) -> Neighbours:
        """Return where those are that others ask; they are started in order."""
        replicas = list(self._running.values())
        stores = [r.ports.storage for r in replicas if r.component.stores_artifacts]
        planners = [r for r in reversed(replicas) if r.component.makes_plans]
        takers = [r.ports.events for r in replicas if r.component.takes_events]
        return Neighbours(
            events=f"127.0.0.1:{takers[0]}" if takers else "",
            storage=tuple(f"127.0.0.1:{port}" for port in stores),
            plans={each.component.name: f"127.0.0.1:{each.ports.plan}" for each in planners},
        )

    async def stop_all(self) -> None:
        """End every process, appliers before sources."""
        for component in reversed(COMPONENTS):
            mine = [r for r in self._running.values() if r.component is component]
            await asyncio.gather(*(r.process.stop() for r in mine))


@asynccontextmanager
async def start(
    kubeconfig: Path, *, state: Path, options: Options | None = None
) -> AsyncIterator[Stack]:
    """Install with ``kubeconfig``'s credentials, run the components; stop and disarm on exit."""
    options = options or Options()
    layout = Layout.prepare(state)
    await _install(kubeconfig, layout, options)
    keeper = config.from_environment(str(layout.kubeconfig(install.KEEPER)))
    with errors.ungrouped(), contextlib.ExitStack() as held:
        async with (
            client.Client.open(keeper) as api,
            aiohttp.ClientSession() as session,
            asyncio.TaskGroup() as group,
        ):
            files = tokens.TokenKeeper(api, _token_files(layout, options), options.namespace)
            renewal = group.create_task(files.run(await files.write()), name="tokens")
            stack = Stack(layout, options, group=group, session=session, held=held)
            try:
                await _launch_all(stack)
                yield stack
            finally:
                await asyncio.shield(stack.stop_all())
                await asyncio.shield(_disarm(layout, options))
                renewal.cancel()


def _registered(component: Component) -> list[str]:
    """Return the metrics that tell that the API server asks a component."""
    if component.serves_api:
        return ["penstock_apiserver_available 1.0"]
    return [
        f'penstock_admission_armed{{configuration="{obj["kind"]}"}} 1.0'
        for obj in configuration.configurations(plugins.PLUGINS, _ANYWHERE)
    ]


async def _launch_all(stack: Stack) -> None:
    for name in stack.options.components:
        component = _component(name)
        # The API server has one address on this machine.
        replicas = 1 if component.asked_by_api_server else stack.options.replicas
        for number in range(replicas):
            stack.launch(component, number)
    for name in stack.options.components:
        await stack.wait_ready(name)
        if _component(name).asked_by_api_server:
            await stack.wait_armed(name)
        stack.options.report(f"{name} ready")


async def _disarm(layout: Layout, options: Options) -> None:
    """Remove the registrations of processes that will end from the API server.

    Each component removes its own, under its own account. A component that was killed, with us,
    leaves its registration: it fails closed until it runs again.
    """
    for name in options.components:
        component = _component(name)
        if not component.asked_by_api_server:
            continue
        account = config.from_environment(str(layout.kubeconfig(component.service_account)))
        try:
            async with asyncio.timeout(_FAREWELL), client.Client.open(account) as api:
                await _take_back(component, api)
        except (ApiError, TimeoutError) as exc:
            options.report(f"{name} not disarmed: {str(exc) or 'the API server does not answer'}")


async def _take_back(component: Component, api: client.Client) -> None:
    if component.serves_api:
        await registration.unregister(api)
        return
    await arming.disarm(api)
    await definitions.disarm(api, KINDS)


async def _install(kubeconfig: Path, layout: Layout, options: Options) -> None:
    admin = config.from_environment(str(kubeconfig), context=options.context)
    accounts = [file.service_account for file in _token_files(layout, options)]
    async with client.Client.open(admin) as api:
        summary = await install.install(api, namespace=options.namespace, accounts=accounts)
        options.report(summary)
        if any(_component(name).serves_api for name in options.components):
            await install.name_this_machine(api, namespace=options.namespace)
        token = await tokens.request_token(
            api, install.KEEPER, options.namespace, seconds=_KEEPER_LIFETIME
        )
    tokens.write_secret(layout.token(install.KEEPER), token.token)
    for account in (*accounts, install.KEEPER):
        text = kubeconfigs.for_token_file(
            kubeconfig,
            layout.token(account),
            namespace=options.namespace,
            context=options.context,
        )
        tokens.write_secret(layout.kubeconfig(account), text)


def _token_files(layout: Layout, options: Options) -> tuple[tokens.TokenFile, ...]:
    accounts = (_component(name).service_account for name in options.components)
    return tuple(tokens.TokenFile(service_account=a, path=layout.token(a)) for a in accounts)


def _component(name: str) -> Component:
    for component in COMPONENTS:
        if component.name == name:
            return component
    known = ", ".join(component.name for component in COMPONENTS)
    raise errors.UsageError(f"there is no component {name!r}; known are {known}")


def _ports(held: contextlib.ExitStack) -> Ports:
    """Reserve the ports of one replica; its servers share them with us (SO_REUSEADDR)."""
    names = [each.name for each in fields(Ports)]
    taken = {
        name: held.enter_context(reserving.reserve(socket.SO_REUSEADDR)).getsockname()[1]
        for name in names
    }
    return Ports(**taken)


def forget(state: Path) -> None:
    """Remove tokens and kubeconfigs; logs and artifacts stay for debugging."""
    for name in ("tokens", "kubeconfigs"):
        shutil.rmtree(state / name, ignore_errors=True)
