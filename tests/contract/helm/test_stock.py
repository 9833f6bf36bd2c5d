"""Stock Helm works on our releases, and we on its."""

import json
from pathlib import Path

import pytest

from controlplane.plane import ControlPlane
from tests.contract.helm.world import World, statuses
from tests.tools.helmcli import Helm, beside

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_stock_helm_and_we_take_turns(
    world: World, helm: Helm, control_plane: ControlPlane
) -> None:
    where = ("--kubeconfig", Path(control_plane.kubeconfig), "-n", world.namespace)
    await world.run("install", world.chart(), values={"colour": "blue"})

    listed = json.loads(await beside(helm, "list", *where, "-o", "json"))
    assert [(each["name"], each["revision"], each["status"]) for each in listed] == [
        ("app", "1", "deployed")
    ]

    upgraded = world.chart("1.1.0")
    colour = ("--set", "colour=green")
    await beside(helm, "upgrade", "app", upgraded, *colour, "--force-conflicts", *where)
    assert world.colour() == "green"
    await beside(helm, "rollback", "app", "1", "--force-conflicts", *where)
    assert world.colour() == "blue"

    assert await world.history() == [(3, "deployed"), (2, "superseded"), (1, "superseded")]
    ours = await world.run("upgrade", upgraded, values={"colour": "black"}, forceConflicts=True)
    assert statuses(ours) == [(4, "deployed"), (3, "superseded")]
    assert world.colour() == "black"
    assert "shop-1.1.0" in await beside(helm, "list", *where)
    await world.run("uninstall")
    assert json.loads(await beside(helm, "list", *where, "-o", "json")) == []
