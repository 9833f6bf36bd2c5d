"""A process starts in order, says how it is, and stops without dropping what it holds."""

import asyncio
import contextlib
import json
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import msgspec
import pytest

from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.serving import free_port
from tests.fakes.strangers import Stranger
from toolkit.kube.client import Client
from toolkit.kube.informer import Informer
from toolkit.kube.leaderelection import LeaseLostError
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.objects import GroupVersionKind

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SECRET = GroupVersionKind("", "v1", "Secret")


class Part:
    """A controller whose life is written down."""

    def __init__(self, client: Client, diary: list[str]) -> None:
        self.informer = Informer(client, CONFIG_MAP, decode=msgspec.json.decode)
        self.diary = diary
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        self.diary.append("started")
        try:
            await self.stopping.wait()
            self.diary.append("finished")
        except asyncio.CancelledError:
            self.diary.append("cancelled")
            raise

    async def stop(self) -> None:
        self.stopping.set()
        await asyncio.sleep(1)


def manage(
    scenario: Callable[[Manager, FakeApiServer, list[str]], Awaitable[None]],
    *,
    server: FakeApiServer | None = None,
    **options: object,
) -> list[str]:
    """Run a manager with one controller and one service while the scenario acts."""

    async def main() -> list[str]:
        fake = server or FakeApiServer()
        diary: list[str] = []
        settings = {"health_addr": "0", "metrics_addr": "0", "runtime_namespace": "default"}
        async with fake.running() as client:
            manager = Manager(Options(**(settings | options)), client)  # type: ignore[arg-type] # by name
            manager.add_controller(Part(client, diary), lease="lease")

            async def service() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    diary.append("service ended")

            manager.add_service(service)
            running = asyncio.create_task(manager.run())
            await asyncio.sleep(0.5)
            try:
                await scenario(manager, fake, diary)
            finally:
                manager.stop()
                await asyncio.wait([running])
                error = running.exception()
                if error:
                    diary.append(type(error).__name__)
                    if isinstance(error, ExceptionGroup) and error.subgroup(LeaseLostError):
                        diary.append("lease lost")
        return diary

    return virtualtime.run(main)


async def nothing(_manager: Manager, _server: FakeApiServer, _diary: list[str]) -> None:
    return None


def test_a_stop_finishes_controllers_before_services_end() -> None:
    assert manage(nothing) == ["started", "finished", "service ended"]


async def run_until(manager: Manager, ending: str) -> None:
    if ending == "before it runs":
        raise EndedError
    running = asyncio.create_task(manager.run())
    if ending == "after a stop":
        await asyncio.sleep(0)  # its parts exist then, and none has begun
        manager.stop()
        return await running
    if ending == "before its parts run":
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    raise EndedError


class EndedError(Exception):
    """How a process ended."""


@pytest.mark.parametrize(
    "ending",
    ["before it runs", "before its first step", "before its parts run", "after a stop"],
)
@pytest.mark.usefixtures("root")
async def test_what_parts_opened_is_closed_last_however_it_ends(
    ending: str, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "test",
                "contexts": [{"name": "test", "context": {"cluster": "test"}}],
                "clusters": [{"name": "test", "cluster": {"server": "http://127.0.0.1:9"}}],
            }
        )
    )
    options = Options(kubeconfig=str(kubeconfig), health_addr="0", metrics_addr="0")
    diary: list[str] = []

    async def close() -> None:
        diary.append("closed")

    async def service() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            diary.append("service ended")

    with contextlib.suppress(EndedError):
        async with Manager.open(options) as manager:
            manager.until_end.push_async_callback(close)
            manager.add_service(service)
            await run_until(manager, ending)

    assert diary[-1:] == ["closed"]
    assert diary.count("closed") == 1


async def test_blocking_work_of_one_namespace_leaves_threads_to_others(tmp_path: Path) -> None:
    """A namespace has four reconciliations at once, each of which may decrypt eight files."""
    config = tmp_path / "config"
    config.write_text(KUBECONFIG)
    released = threading.Event()
    async with Manager.open(Options(kubeconfig=str(config))):
        hostile = [asyncio.create_task(asyncio.to_thread(released.wait, 60)) for _ in range(4 * 8)]
        await asyncio.sleep(0)

        assert await asyncio.to_thread(lambda: "done") == "done"

        assert not any(task.done() for task in hostile)
        released.set()
        await asyncio.gather(*hostile)


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it(number: signal.Signals) -> None:
    async def scenario(_: Manager, __: FakeApiServer, diary: list[str]) -> None:
        os.kill(os.getpid(), number)
        await asyncio.sleep(5)
        assert diary[-1] == "service ended"

    assert manage(scenario) == ["started", "finished", "service ended"]


def test_the_lease_is_held_while_working_and_released_at_the_end() -> None:
    server = FakeApiServer()

    async def scenario(manager: Manager, _: FakeApiServer, __: list[str]) -> None:
        lease = server.objects[("leases", "default", "lease")]
        assert lease["spec"]["holderIdentity"] == manager.identity

    diary = manage(scenario, server=server, enable_leader_election=True)

    assert diary == ["started", "finished", "service ended"]
    assert server.objects[("leases", "default", "lease")]["spec"]["holderIdentity"] == ""


def test_a_follower_is_ready_and_does_nothing() -> None:
    server = FakeApiServer()
    held = {"holderIdentity": "other", "leaseDurationSeconds": 3600}
    server.put("leases", "lease", spec=held)
    port = free_port()

    async def scenario(_: Manager, __: FakeApiServer, ___: list[str]) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/readyz") as response,
        ):
            assert response.status == 200

    options = {"enable_leader_election": True, "health_addr": f"127.0.0.1:{port}"}
    diary = manage(scenario, server=server, **options)

    assert diary == ["service ended"]


def test_a_lost_lease_ends_the_process_with_an_error() -> None:
    async def scenario(_: Manager, server: FakeApiServer, diary: list[str]) -> None:
        server.edit("leases", "lease", lambda obj: obj["spec"].update(holderIdentity="thief"))
        await asyncio.sleep(20)
        assert "cancelled" in diary

    diary = manage(scenario, enable_leader_election=True)

    assert diary[-1] == "lease lost"


def test_it_is_not_ready_before_its_caches_are_complete() -> None:
    server = FakeApiServer()
    kind = server.kinds.pop(("", "v1", "configmaps"))
    port = free_port()
    answers: list[tuple[int, int]] = []

    async def scenario(_: Manager, __: FakeApiServer, ___: list[str]) -> None:
        async with aiohttp.ClientSession() as session:
            for wait in (0, 40):
                await asyncio.sleep(wait)
                async with session.get(f"http://127.0.0.1:{port}/readyz") as response:
                    ready = response.status
                async with session.get(f"http://127.0.0.1:{port}/healthz") as response:
                    answers.append((ready, response.status))
                server.kinds[("", "v1", "configmaps")] = kind

    manage(scenario, server=server, health_addr=f"127.0.0.1:{port}")

    assert answers == [(503, 200), (200, 200)]


def test_a_controller_starts_when_the_caches_of_other_parts_are_complete() -> None:
    server = FakeApiServer()
    kind = server.kinds.pop(("", "v1", "secrets"))

    async def main() -> list[str]:
        diary: list[str] = []
        options = Options(health_addr="0", metrics_addr="0", runtime_namespace="default")
        async with server.running() as client:
            manager = Manager(options, client)
            sources = Informer(client, SECRET, decode=msgspec.json.decode)
            sources.subscribe(lambda change: diary.append(f"saw {change.key.name}"))
            manager.add_informer(sources)
            manager.add_controller(Part(client, diary), lease="lease")
            running = asyncio.create_task(manager.run())
            await asyncio.sleep(1)
            server.kinds[("", "v1", "secrets")] = kind
            server.put("secrets", "source")
            await asyncio.sleep(30)
            manager.stop()
            await running
        return diary

    assert virtualtime.run(main) == ["saw source", "started", "finished"]


def test_a_kind_that_is_not_served_delays_controllers_for_a_while_only() -> None:
    server = FakeApiServer()
    del server.kinds[("", "v1", "secrets")]

    async def main() -> list[str]:
        diary: list[str] = []
        options = Options(health_addr="0", metrics_addr="0", runtime_namespace="default")
        async with server.running() as client:
            manager = Manager(options, client)
            manager.add_informer(Informer(client, SECRET, decode=msgspec.json.decode))
            manager.add_controller(Part(client, diary), lease="lease")
            running = asyncio.create_task(manager.run())
            await asyncio.sleep(60)
            manager.stop()
            await running
        return diary

    assert virtualtime.run(main) == ["started", "finished"]


def test_metrics_are_served_with_flux_s_names() -> None:
    port = free_port()
    pages: list[str] = []

    async def scenario(_: Manager, __: FakeApiServer, ___: list[str]) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as response,
        ):
            pages.append(await response.text())

    manage(scenario, metrics_addr=f"127.0.0.1:{port}")

    for name in (
        "gotk_reconcile_duration_seconds",
        "gotk_reconcile_condition",
        "gotk_suspend_status",
        "gotk_reconcile_error_total",
        "controller_runtime_reconcile_total",
        "workqueue_depth",
        "rest_client_requests_total",
        "leader_election_master_status",
    ):
        assert f"# TYPE {name} " in pages[0]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: ",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /health",
    ],
    ids=["nothing", "half a request", "another half"],
)
def test_a_connection_without_a_whole_request_is_closed(sent: bytes) -> None:
    port = free_port()

    async def scenario(_: Manager, __: FakeApiServer, diary: list[str]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        async with asyncio.timeout(100):
            await reader.read()
        diary.append("closed")
        writer.close()
        await writer.wait_closed()

    assert "closed" in manage(scenario, health_addr=f"127.0.0.1:{port}")


@pytest.mark.parametrize("endpoint", ["health", "metrics"])
def test_strangers_keep_no_probe_out(endpoint: str) -> None:
    port = free_port()
    path = {"health": "healthz", "metrics": "metrics"}[endpoint]

    async def scenario(_: Manager, __: FakeApiServer, diary: list[str]) -> None:
        loop = asyncio.get_running_loop()
        strangers = [await Stranger.open(port) for _ in range(100)]
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/{path}") as response,
        ):
            diary.append(str(response.status))
        # Those for whom there is no room go at once, the others when they have brought nothing.
        for each in strangers[:36]:
            await each.ended()
        crowded = loop.time()
        for each in strangers[36:]:
            await each.ended()
        diary.append("in time" if crowded < 5 and loop.time() < 15 else "late")
        for each in strangers:
            await each.close()

    diary = manage(scenario, **{f"{endpoint}_addr": f"127.0.0.1:{port}"})

    assert diary == ["started", "200", "in time", "finished", "service ended"]
