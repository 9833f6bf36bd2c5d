"""The walk of a stranger, who has nothing but the wheel: to Penstock and back, nothing restarts.

The command and the processes are those of the installed wheel, outside of this checkout. The fleet
has a HelmRelease besides its Kustomizations.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from controlplane import plane as planes
from tests.e2e.walking import DEPLOYMENT, PENSTOCK, Walk
from tests.fakes import charts, fluxinstallation, fluxrelease
from tests.fakes.fluxfleet import Fleet
from tests.fakes.fluxrelease import HELM_RELEASE
from tests.fakes.gitserver import GitServer
from tests.tools import wheels
from tests.tools.helmcli import Helm, beside
from tests.tools.waiting import until
from tests.tools.wheels import Installed
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.objects import dig

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

RELEASE, PLACE = "till", "shop"


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    directory = tmp_path_factory.mktemp("tool")
    return wheels.install(wheels.build(directory), sys.executable, directory)


@pytest_asyncio.fixture(loop_scope="session")
async def walk(installed: Installed, helm: Helm, tmp_path: Path) -> AsyncIterator[Walk]:
    """Give a cluster of Flux that only this test uses, and the command of the wheel."""
    with planes.start("pytest-wheel-walk", alternatives=8) as plane:
        admin = config.from_environment(str(plane.kubeconfig))
        async with GitServer(tmp_path / "git") as server, Client.open(admin) as api:
            fleet = Fleet(server.repository("fleet"), releases=[RELEASE])
            await fleet.leave(api)
            made = Walk(
                plane=plane,
                api=api,
                fleet=fleet,
                directory=tmp_path,
                program=(installed.program,),
                environment=installed.environment(),
                place=installed.home,
            )
            await _released(made, helm)
            await made.settled()
            yield made


async def _released(walk: Walk, helm: Helm) -> None:
    """Install the chart, and leave its release as Flux does."""
    chart = charts.write(walk.directory / "chart", fluxrelease.CHART)
    where = ("--kubeconfig", Path(walk.plane.kubeconfig), "--namespace", PLACE)
    await beside(helm, "install", RELEASE, chart, "--server-side=false", *where)
    await walk.settled()
    await fluxrelease.in_its_name(walk.api, PLACE, [(DEPLOYMENT, RELEASE)])
    finalizers = {"metadata": {"finalizers": [fluxrelease.FINALIZER]}}
    await walk.api.patch(HELM_RELEASE, RELEASE, PLACE, finalizers, strategy="merge")
    found = await fluxrelease.stored(walk.api, PLACE)
    await fluxrelease.told(walk.api, PLACE, RELEASE, found)


@asynccontextmanager
async def running(walk: Walk) -> AsyncIterator[None]:
    """Run the controllers of the wheel on this machine, in the place of those of the pods."""
    process = await asyncio.create_subprocess_exec(
        *(*walk.program, "up", "--no-gate", f"--namespace={PENSTOCK}"),
        *(f"--kubeconfig={walk.plane.kubeconfig}", f"--state={walk.directory / 'state'}"),
        env=walk.environment,
        cwd=walk.place,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said: list[str] = []
    try:
        while line := (await process.stderr.readline()).decode():
            said.append(line)
            if "Penstock is running" in line:
                break
        assert "Penstock is running" in "".join(said[-1:]), "".join(said)
        reading = asyncio.create_task(process.stderr.read())
        yield
    finally:
        process.terminate()
        await process.wait()
    await reading


async def test_a_stranger_goes_to_penstock_and_back(walk: Walk) -> None:
    before = await walk.workloads()
    history = await fluxrelease.stored(walk.api, PLACE)
    assert before.keys() == {"web", "worker", "extra", RELEASE}

    told = await walk.migrate("--dry-run")
    assert told.code == 1, "references block it until they are allowed"
    assert "--allow-references" in told.out
    await walk.done("--allow-references", "--until=3")
    async with running(walk):
        await walk.done("--allow-references")
        commit = walk.fleet.change_settings("blue")
        await walk.applied(commit, "apps")
        await until(lambda: walk.has_colour("blue"))

        released = await walk.api.get(HELM_RELEASE, RELEASE, PLACE)
        assert dig(released, "status", "conditions")[0]["status"] == "True"
        assert dig(released, "status", "lastAttemptedRevision") == "1.0.0"
        assert await fluxrelease.stored(walk.api, PLACE) == history, "nothing was upgraded"
        assert await walk.workloads() == before

    back = await walk.done("--rollback")

    assert "Flux reconciles again" in back.err
    assert await walk.replicas() == dict.fromkeys(fluxinstallation.CONTROLLERS, 1)
    assert not await walk.excluded()
    assert await walk.workloads() == before
    assert await fluxrelease.stored(walk.api, PLACE) == history
