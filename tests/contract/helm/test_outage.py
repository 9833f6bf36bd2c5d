"""Upgrades that do not end: the API server goes away in the middle, or they are somebody else's."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from crds.helm import HelmRelease
from tests.contract.helm.world import CONFIG_MAP, Refusing, World
from tests.fakes import charts, helmworld
from toolkit.errors import PenstockError, TransientError, WaitingError
from toolkit.helm import actions
from toolkit.helm.actions import Chart, Order, Outcome, Release
from toolkit.helm.gates import Exchanging, Response
from toolkit.helm.signing import Signing
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass
class Server:
    """The engine, and an API server that goes away once an object of the release is written."""

    pool: WorkerPool
    chart: Chart
    fragile: bool = False
    away: bool = False

    async def run(self, release: Release, order: Order) -> Outcome:
        """Run an action (``controllers.helm.running.engine.Run``)."""
        identities = (release.acting, release.keeping)
        acting, keeping = (Line(identity, self) for identity in identities)
        return await actions.run(self.pool, replace(release, acting=acting, keeping=keeping), order)

    def require(self) -> None:
        """Fail as a client does that gets no connection."""
        if self.away:
            raise TransientError("the API server cannot be reached")


@dataclass
class Line:
    """An identity's way to the server."""

    client: Exchanging
    server: Server

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[Response]:
        self.server.require()
        async with self.client.exchange(method, target, headers=headers, body=body) as answer:
            yield answer
        if self.server.fragile and method == "PATCH" and "dryRun" not in target:
            self.server.away = True


class Passes(helmworld.World):
    """Passes over a HelmRelease with the real engine, and on a real API server."""

    def __init__(self, world: World, directory: Path) -> None:
        directory.mkdir()
        self.server = Server(pool=world.pool, chart=Chart(name="shop", version="1.0.0"))
        at_once = {"disableWait": True}
        super().__init__(
            directory, namespace=world.namespace, client=world.api, install=at_once, upgrade=at_once
        )
        second = CONFIG_MAP.replace("{{ .Release.Name }}", "zz-second")
        content = {"templates__configmap_yaml": CONFIG_MAP, "templates__second_yaml": second}
        charts.write(directory / "shop", charts.chart("shop", "1.0.0", **content))

    def start(self) -> None:
        self.helm: Any = self.server
        super().start()

    async def _write(self, obj: HelmRelease, body: Json) -> HelmRelease:
        self.server.require()
        return await super()._write(obj, body)


@pytest.mark.parametrize("restarts", [False, True], ids=["same-process", "next-process"])
async def test_upgrade_that_lost_its_server_is_unlocked_and_made_again(
    world: World,
    tmp_path: Path,
    restarts: bool,  # noqa: FBT001
) -> None:
    await world.let_apply()
    passes = Passes(world, tmp_path / "passes")
    passes.spec(values={"colour": "red"})
    await passes.ready("spec")
    passes.spec(values={"colour": "blue"})

    passes.server.fragile = True
    with pytest.raises(PenstockError, match="cannot be reached"):
        await passes.run("spec")
    found = await world.history()
    written = sorted(world.config_map(name)["data"]["colour"] for name in ("app", "zz-second"))
    passes.server.fragile = passes.server.away = False
    if restarts:
        passes.start()
    await passes.ready("retry")

    assert found == [(2, "pending-upgrade"), (1, "deployed")]
    assert written == ["blue", "red"]
    assert await world.history() == [(3, "deployed"), (2, "failed"), (1, "superseded")]
    colours = {world.config_map(name)["data"]["colour"] for name in ("app", "zz-second")}
    assert colours == {"blue"}
    assert passes.condition("Ready")[:2] == ("True", "UpgradeSucceeded")
    assert [each.version for each in passes.obj.status.history][:1] == [3]


async def test_upgrade_of_somebody_else_is_not_overrun(world: World, tmp_path: Path) -> None:
    await world.let_apply()
    passes = Passes(world, tmp_path / "passes")
    passes.spec(values={"colour": "red"})
    await passes.ready("spec")
    refusing = Refusing(world.api, "PUT", "app.v2")
    busy = world.with_(keeping=Signing(refusing, manager="Helm"))
    await busy.fails("upgrade", world.chart(), values={"colour": "theirs"})

    passes.start()  # no watch shows the record here
    ended = await passes.run("storage")
    left, colour = await world.history(), world.colour()
    passes.ask(requestedAt="now", forceAt="now")
    await passes.ready("requested")

    assert isinstance(ended, WaitingError)
    assert "app.v2 has the status 'pending-upgrade' since" in str(ended)
    assert left == [(2, "pending-upgrade"), (1, "superseded")]
    assert colour == "theirs"
    assert await world.history() == [(3, "deployed"), (2, "superseded"), (1, "superseded")]
    assert world.colour() == "red"
