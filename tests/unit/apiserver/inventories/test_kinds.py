"""Kustomizations and HelmReleases of one name have an inventory each."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from apiserver.inventories import appliers
from apiserver.inventories.appliers import APPLIERS, Applied, Source
from apiserver.inventories.kinds import Kinds
from apiserver.inventories.plans import Plans
from apiserver.inventories.projection import Inventories
from apiserver.inventories.reconciling import Reconciling
from apiserver.view import View
from controllers.helm import planning
from tests.fakes.evaluating import NoEvaluator
from tests.unit.apiserver.inventories.scene import KEY, REF, applied
from tests.unit.apiserver.inventories.served import asked
from toolkit.kube.client import Client
from toolkit.kube.config import ClusterConfig
from toolkit.kube.informer import Change
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

KUSTOMIZATION, RELEASE = APPLIERS
NAMED = ObjectKey(KEY.namespace, f"helmrelease:{KEY.name}")
NAME = {"name": KEY.name}


@dataclass
class Scene:
    """The inventories of both kinds."""

    view: View
    several: dict[appliers.Applier, Inventories]

    @property
    def kinds(self) -> Kinds:
        return Kinds(self.several)

    def put(self, applier: appliers.Applier, new: Applied | None) -> None:
        old = None if new else applied()
        self.several[applier].applier(Change("MODIFIED", KEY, old, new))

    async def flush(self) -> None:
        for each in self.several.values():
            await each.flush()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    view = View(kind="Inventory", api_version="gitops.penstock.dev/v1alpha1", tag=1)
    async with Client.open(ClusterConfig(server="http://127.0.0.1:1", namespace="x")) as api:
        yield Scene(
            view, {each: Inventories(api, each, view, evaluates=NoEvaluator()) for each in APPLIERS}
        )


async def test_each_is_served_under_a_name_of_its_own(scene: Scene) -> None:
    scene.put(KUSTOMIZATION, applied())
    scene.put(RELEASE, applied(REF, revision="6.5.0"))
    await scene.flush()

    shown = {
        key.name: (item.obj["spec"]["applierRef"], item.obj["status"]["objects"])
        for key in (KEY, NAMED)
        if (item := scene.view.get(key))
    }

    assert shown == {
        "app": ({"apiVersion": KUSTOMIZATION.gvk.api_version, "kind": "Kustomization"} | NAME, 0),
        "helmrelease:app": (
            {"apiVersion": RELEASE.gvk.api_version, "kind": "HelmRelease"} | NAME,
            1,
        ),
    }


async def test_each_is_found_by_its_own_name(scene: Scene) -> None:
    scene.put(RELEASE, applied(REF))

    found = scene.kinds.get(NAMED)

    assert scene.kinds.get(KEY) is None
    assert found is not None
    assert [tracked.ref async for tracked, _ in scene.kinds.rows(found)] == [REF]


async def test_the_end_of_one_leaves_the_other(scene: Scene) -> None:
    for applier in APPLIERS:
        scene.put(applier, applied())
    await scene.flush()

    scene.put(RELEASE, None)
    await scene.flush()

    assert scene.view.get(NAMED) is None
    assert scene.view.get(KEY) is not None


class Api:
    """Remembers patches."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, str, list[str]]] = []

    async def patch(
        self, gvk: GroupVersionKind, name: str, _namespace: str, body: Json, **_: Any
    ) -> Json:
        self.patches.append((gvk.kind, name, sorted(body["metadata"]["annotations"])))
        return {}


async def test_a_release_is_reconciled_by_the_name_of_its_inventory(scene: Scene) -> None:
    source = Source(kind="HelmRepository", namespace="shop", name="charts")
    scene.put(RELEASE, applied(sources=(source,)))
    scene.view.complete()
    api: Any = Api()
    reconciling = Reconciling(api, scene.kinds, scene.view)

    async with asked(reconciling.handle, name=NAMED.name) as ask:
        answer = await ask("POST", json={"withSource": True, "force": True, "reset": True})

    requested, *others = (f"reconcile.fluxcd.io/{a}" for a in ("requestedAt", "forceAt", "resetAt"))
    assert answer.status == 201
    assert answer.body["metadata"]["name"] == "helmrelease:app"
    assert answer.body["applierRef"]["kind"] == "HelmRelease"
    assert api.patches == [
        ("HelmRepository", "charts", [requested]),
        ("HelmRelease", "app", sorted([requested, *others])),
    ]


async def test_a_plan_of_a_release_is_asked_of_its_controller(scene: Scene) -> None:
    scene.put(RELEASE, applied())
    scene.view.complete()
    hooks = [{"kind": "Job", "name": "migrate", "events": ["pre-upgrade"]}]
    paths: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        return web.json_response({"revision": "1.0.0", "unchanged": 1, "hooks": hooks})

    async def token() -> str:
        return "token"

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    async with TestServer(app) as server:
        addresses = {
            "kustomize-controller": "127.0.0.1:1",
            "helm-controller": f"127.0.0.1:{server.port}",
        }
        plans = Plans(scene.kinds, scene.view, addresses=addresses, token=token)
        running = asyncio.create_task(plans.run())
        await asyncio.sleep(0)
        async with asked(plans.diff, name=NAMED.name) as ask:
            answer = await ask()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert (answer.status, paths) == (200, ["/plan/shop/app"])
    assert answer.body["metadata"]["name"] == NAMED.name
    assert answer.body["hooks"] == hooks


def test_controllers_name_the_inventories_as_they_are_served() -> None:
    assert appliers.inventory_name("HelmRelease", "app") == f"{planning.PREFIX}app"


def release(**spec: Any) -> bytes:
    return msgspec.json.encode(
        {
            "metadata": {"name": "app", "namespace": "shop", "uid": "u", "resourceVersion": "7"},
            "spec": spec,
            "status": {
                "conditions": [{"type": "Reconciling", "status": "True"}],
                "lastAttemptedRevision": "6.6.0",
                "history": [{"chartVersion": "6.5.0"}, {"chartVersion": "6.4.0"}],
                "inventory": {"entries": [{"id": "shop_conf__ConfigMap", "v": "v1"}]},
            },
        }
    )


def test_a_release_tells_the_chart_that_was_released_last() -> None:
    read = appliers.helm_release(release())

    assert (read.revision, read.attempted, read.busy) == ("6.5.0", "6.6.0", True)
    assert read.refs == (ObjectRef(GroupVersionKind("", "v1", "ConfigMap"), "shop", "conf"),)


@pytest.mark.parametrize(
    ("spec", "source"),
    [
        (
            {"chart": {"spec": {"sourceRef": {"kind": "HelmRepository", "name": "c"}}}},
            Source(kind="HelmRepository", namespace="shop", name="c"),
        ),
        (
            {"chartRef": {"kind": "OCIRepository", "name": "c", "namespace": "flux-system"}},
            Source(kind="OCIRepository", namespace="flux-system", name="c"),
        ),
    ],
    ids=["chart", "chartRef"],
)
def test_the_source_of_a_release_is_the_one_that_its_spec_names(spec: Json, source: Source) -> None:
    assert appliers.helm_release(release(**spec)).sources == (source,)


def test_the_name_of_an_inventory_is_known_by_kind() -> None:
    assert appliers.inventory_name("Kustomization", "app") == "app"
    assert appliers.inventory_name("HelmRelease", "app") == "helmrelease:app"
