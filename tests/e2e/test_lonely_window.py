"""The window when controllers are away, and when it has been away itself."""

import asyncio

import pytest

from tests.e2e.conftest import Space, config_map
from tests.e2e.window import Window
from tests.tools.waiting import until
from toolkit.kube.errors import ApiError
from toolkit.objects import Json

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.rough]


async def test_without_its_neighbours_the_window_says_what_is_missing(space: Space) -> None:
    """Inventories need no controller; plans do. A restart loses nothing but what it saw."""
    world, window = space.world, Window(space)
    repository = space.repository()
    repository.commit({"a.yaml": config_map("a", v="1")})
    await world.apply(space.source(repository), space.kustomization())
    await space.ready()
    before = await window.until(lambda status: status["ready"] == "True")

    await world.stack.stop("kustomize")
    said = await window.refused("get", "--raw", window.path("diff"))
    # Times of writes have whole seconds: within one nobody knows which came later.
    await asyncio.sleep(1.1)
    await window("patch", "configmap", "a", "--type=merge", "-p", '{"data":{"v":"2"}}')
    drifted = await window.until(lambda status: status["drifted"] == 1)
    await world.stack.restart("apiserver")
    after = await window.until(lambda status: status["current"] == 1)
    objects = (await window.raw("objects"))["objects"]
    await world.stack.restart("kustomize")
    plan = await _until_planned(window)
    healed = await window.until(lambda status: status["ready"] == "True")

    assert "cannot be reached" in said
    assert drifted["status"]["problems"][0]["changedBy"] == ["kubectl-patch"]
    assert (after["status"]["drifted"], objects[0]["drift"]) == (0, "Possible")
    assert objects[0]["changedBy"] == ["kubectl-patch"]
    assert plan["kind"] == "InventoryPlan"
    assert healed["metadata"]["uid"] == before["metadata"]["uid"]


async def _until_planned(window: Window) -> Json:
    async def planned() -> Json | None:
        try:
            return await window.space.world.api.request("GET", window.path("diff"))
        except ApiError:
            return None

    plan: Json = await until(planned)
    return plan
