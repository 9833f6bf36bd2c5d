"""Who follows inventories and artifacts ends up with what there is, whatever happens to us."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.contract.apiserver.following import Follower, cached, followed
from tests.contract.apiserver.inventories.fleet import KINDS, Fleet
from tests.contract.apiserver.processes import Process, running
from tests.contract.apiserver.renewing import OVERLAP, renew, served
from tests.contract.apiserver.window import BASE, Window
from tests.fakes.serving import free_port
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="module")

KILLS: Final = 10
TOLD: Final[Mapping[str, Callable[[Json], object]]] = MappingProxyType(
    {
        # resource: what of its objects is compared with the fleet
        "inventories": lambda obj: tuple(
            obj["status"][name] for name in ("objects", "missing", "revision")
        ),
        "artifacts": lambda obj: obj["spec"]["revision"],
    }
)
_VERSION: Final = "resourceVersion"
_TABLE: Final = "application/json;as=Table;g=meta.k8s.io;v=v1"
Known = dict[str, Json]
"""Objects by name, without their versions: each process counts its own."""
Rows = dict[str, list[str]]
"""What kubectl prints of them, without the age, which goes stale."""


@dataclass
class Printed:
    """One ``kubectl get -w``, and the last rows that it has shown."""

    process: asyncio.subprocess.Process
    rows: Rows = field(default_factory=dict)

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            event, *cells = line.decode().split()
            if event == "DELETED":
                del self.rows[cells[0]]
            elif event != "EVENT":
                self.rows[cells[0]] = cells[:-1]

    async def ended(self) -> tuple[int, bytes]:
        """Wait until it has ended by itself; return its status and its complaints."""
        assert self.process.stderr is not None
        async with asyncio.timeout(30):
            complaints = await self.process.stderr.read()
            return await self.process.wait(), complaints


@contextlib.asynccontextmanager
async def printing(window: Window, resource: str) -> AsyncIterator[Printed]:
    """Run ``kubectl get -w`` in the namespace."""
    process = await asyncio.create_subprocess_exec(
        window.control_plane.kubectl_program,
        f"--kubeconfig={window.control_plane.kubeconfig}",
        *("get", resource, f"--namespace={window.namespace}", "--watch", "--output-watch-events"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed = Printed(process)
    reading = asyncio.create_task(printed.read())
    try:
        yield printed
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await reading


@dataclass
class Followers:
    """All who follow one resource."""

    informer: Follower
    cache: Any
    printed: Printed

    def known(self, namespace: str) -> tuple[Known, Known]:
        """Return what the informers have."""
        return bare(self.informer.store.values(), namespace), bare(self.cache.list(), namespace)


def bare(objects: Any, namespace: str) -> Known:
    """Return the objects of a namespace by name."""
    found: Known = {}
    for each in objects:
        metadata = {name: value for name, value in each["metadata"].items() if name != _VERSION}
        if metadata["namespace"] == namespace:
            found[metadata["name"]] = {**each, "metadata": metadata}
    return found


@dataclass
class Scene:
    """A fleet, and who follows what is told of it."""

    fleet: Fleet
    program: Path
    stack: contextlib.AsyncExitStack
    server: contextlib.AsyncExitStack
    port: int
    processes: list[Process] = field(default_factory=list)
    followers: dict[str, Followers] = field(default_factory=dict)

    @property
    def window(self) -> Window:
        return self.fleet.window

    async def start(self) -> None:
        """Run a process, always at the same port."""
        number = len(self.processes)
        process = await self.server.enter_async_context(
            running(self.window, number, f"--certificate-overlap={OVERLAP}s", port=self.port)
        )
        self.processes.append(process)
        await process.window.available()

    async def follow(self) -> None:
        """Have everybody begin."""
        enter = self.stack.enter_async_context
        for resource in TOLD:
            self.followers[resource] = Followers(
                await enter(followed(self.program, self.window, resource=resource)),
                await enter(cached(self.window, resource)),
                await enter(printing(self.window, resource)),
            )

    async def print_anew(self) -> None:
        """Run kubectl again, as people do when its watch has ended."""
        for resource, each in self.followers.items():
            each.printed = await self.stack.enter_async_context(printing(self.window, resource))

    async def told_the_truth(self) -> bool:
        """Tell whether a list says what there is, with nobody changing it."""
        objects, _ = await self.listed("inventories")
        told = {name: TOLD["inventories"](obj) for name, obj in objects.items()}
        return bool(told == await self.fleet.truth("inventories"))

    def fallen(self) -> list[str]:
        """Return the objects whose versions went back for an informer."""
        return [each for known in self.followers.values() for each in known.informer.fallen]

    async def in_sync(self) -> None:
        """Wait until everybody knows what there is."""
        for resource, followers in self.followers.items():
            await self.window.until(self._same(resource, followers))

    def _same(self, resource: str, followers: Followers) -> Callable[[], Any]:
        async def same() -> bool:
            objects, rows = await self.listed(resource)
            told = {name: TOLD[resource](obj) for name, obj in objects.items()}
            return (
                told == await self.fleet.truth(resource)
                and followers.known(self.window.namespace) == (objects, objects)
                and followers.printed.rows == rows
            )

        return same

    async def listed(self, resource: str) -> tuple[Known, Rows]:
        """Return a fresh list."""
        table = await self.window.admin.request(
            "GET",
            f"{BASE}/namespaces/{self.window.namespace}/{resource}",
            query={"includeObject": "Object"},
            headers={"Accept": _TABLE},
        )
        # The age is the last of the columns that are shown without being asked for.
        shown = [column["name"] for column in table["columnDefinitions"]].index("Age")
        objects = bare((row["object"] for row in table["rows"]), self.window.namespace)
        rows = {
            row["cells"][0]: [word for cell in row["cells"][:shown] for word in str(cell).split()]
            for row in table["rows"]
        }
        return objects, rows


@pytest_asyncio.fixture(loop_scope="module")
async def scene(
    request: pytest.FixtureRequest, informer_program: Path, fresh_window: Window, definitions: None
) -> AsyncIterator[Scene]:
    del definitions
    fleet = Fleet(fresh_window, size=request.param)
    async with contextlib.AsyncExitStack() as server, contextlib.AsyncExitStack() as stack:
        opened = Scene(fleet, informer_program, stack, server, port=free_port())
        await fleet.make()
        await opened.start()
        await opened.follow()
        yield opened
    await fresh_window.sweep(*KINDS)


@pytest.mark.parametrize(
    ("scene", "changes"),
    [
        pytest.param(6, 120, id="few"),
        pytest.param(20, 1000, id="many", marks=pytest.mark.slow),
    ],
    indirect=["scene"],
)
async def test_all_who_follow_stay_in_sync_through_everything(scene: Scene, changes: int) -> None:
    fleet, window = scene.fleet, scene.processes[0].window
    await scene.in_sync()

    # 1. Another certificate, authority and all.
    before, made = await served(window), 0
    await renew(window)
    while made < changes // 2 or await served(window) == before:
        await fleet.change(made, made + fleet.size)
        made += fleet.size
    await scene.in_sync()

    # 2. A restart. The newest that there was is deleted meanwhile, and then nothing happens.
    await fleet.add("late")
    await scene.in_sync()
    await scene.server.aclose()
    ends = [await each.printed.ended() for each in scene.followers.values()]
    await fleet.remove()
    await scene.start()
    begun = await scene.told_the_truth()
    await scene.print_anew()
    await scene.in_sync()

    # 3. And on.
    await fleet.change(made, max(made + changes // 5, changes))
    await scene.in_sync()

    assert ends == [(0, b"")] * len(TOLD), "kubectl ends as at any other end of a watch"
    assert begun, "nothing is told before it was observed"
    assert scene.fallen() == [], "the versions of one object never fall"


@pytest.mark.slow  # each start of a process takes seconds
@pytest.mark.parametrize("scene", [20], indirect=True, ids=["many"])
async def test_no_version_falls_however_often_the_process_is_killed(scene: Scene) -> None:
    await scene.in_sync()
    begun = []

    for turn in range(KILLS):
        await scene.fleet.change(turn * 40, (turn + 1) * 40)
        scene.processes[-1].kill()
        await scene.server.aclose()
        if turn % 2:
            await scene.fleet.change((turn + KILLS) * 40, (turn + KILLS) * 40 + 20)
        await scene.start()
        begun.append(await scene.told_the_truth())
    await scene.print_anew()
    await scene.in_sync()

    assert begun == [True] * KILLS, "nothing is told before it was observed"
    assert scene.fallen() == [], "the versions of one object never fall"
