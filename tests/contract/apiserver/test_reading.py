"""What kubectl and a Kubernetes client make of lists and watches, through the real aggregator."""

import asyncio
import json
from functools import partial
from types import SimpleNamespace
from typing import Any

import yaml
from kubernetes.client import CustomObjectsApi
from kubernetes.config import new_client_from_config
from kubernetes.informer import SharedInformer
from prometheus_client import REGISTRY

from tests.contract.apiserver.conftest import API_VERSION, BASE, ToyShop, Window
from tests.tools.waiting import until
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.kube.informer import Informer
from toolkit.objects import GroupVersionKind, Json, key_of

TOY = GroupVersionKind.parse(API_VERSION, "Toy")


async def opened(window: Window, *names: str) -> None:
    """Serve some toys, red but for the last one."""
    for name in names:
        window.shop.put(window.namespace, name)
    if names:
        window.shop.put(window.namespace, names[-1], colour="blue")
    await window.start()
    await window.available()


async def test_kubectl_reads_tables_objects_and_selections(window: Window) -> None:
    await opened(window, "ball", "bear", "car")

    table = await window.kubectl("get", "toys.gitops.penstock.dev")
    wide = await window.kubectl("get", "ty", "-o", "wide", "-A")
    one = yaml.safe_load(await window.kubectl("get", "ty", "bear", "-o", "yaml"))
    several = json.loads(await window.kubectl("get", "ty", "-o", "json"))
    blue = await window.kubectl("get", "ty", "-l", "colour in (blue,green)", "-o", "name")
    field = await window.kubectl("get", "ty", "--field-selector", "spec.colour!=red", "-o", "name")
    name = await window.kubectl("get", "ty", "--field-selector", "metadata.name=ball", "-o", "name")

    assert [line.split() for line in table.splitlines()] == [
        ["NAME", "COLOUR"],
        ["ball", "red"],
        ["bear", "red"],
        ["car", "blue"],
    ]
    assert f"{window.namespace}   car" in wide
    assert one["metadata"]["name"] == "bear"
    assert one["spec"] == {"colour": "red"}
    assert [item["metadata"]["name"] for item in several["items"]] == ["ball", "bear", "car"]
    assert blue.split() == field.split() == ["toy.gitops.penstock.dev/car"]
    assert name.split() == ["toy.gitops.penstock.dev/ball"]


async def test_kubectl_says_what_is_wrong(window: Window) -> None:
    await opened(window, "ball")

    missing = await window.kubectl("get", "ty", "boat")
    field = await window.kubectl("get", "ty", "--field-selector", "spec.size=3")
    token = await window.kubectl("get", "--raw", f"{BASE}/toys?continue=junk")
    match = await window.kubectl("get", "--raw", f"{BASE}/toys?resourceVersionMatch=Exact")

    assert 'Error from server (NotFound): toys.gitops.penstock.dev "boat" not found' in missing
    assert '"spec.size" is not a known field selector' in field
    assert "invalid continue token" in token
    assert "resourceVersionMatch is forbidden unless resourceVersion is provided" in match


async def test_kubectl_reads_page_by_page(window: Window) -> None:
    names = [f"toy-{number:02}" for number in range(25)]
    await opened(window, *names)

    listed = await window.kubectl("get", "ty", "--chunk-size=4", "-o", "name", "-v=6")
    raw = json.loads(
        await window.kubectl("get", "--raw", f"{BASE}/namespaces/{window.namespace}/toys?limit=4")
    )

    assert listed.split() == [f"toy.gitops.penstock.dev/{name}" for name in names]
    assert raw["metadata"]["remainingItemCount"] == 21
    assert raw["metadata"]["continue"]


async def test_kubectl_waits_for_a_value_and_for_an_end(window: Window) -> None:
    await opened(window, "ball", "bear")

    before = watches()

    async def wait(condition: str) -> str:
        return await window.kubectl("wait", f"--for={condition}", "ty/ball", "--timeout=30s")

    async with asyncio.TaskGroup() as group:
        green = group.create_task(wait("jsonpath={.spec.colour}=green"))
        gone = group.create_task(wait("delete"))
        await until(lambda: watches() >= before + 2)
        window.shop.put(window.namespace, "ball", colour="green")
        await green
        window.shop.remove(window.namespace, "ball")

    assert green.result().strip() == "toy.gitops.penstock.dev/ball condition met"
    assert gone.result().strip() == "toy.gitops.penstock.dev/ball condition met"


def watches() -> float:
    """Return how many watches this process answers."""
    return REGISTRY.get_sample_value("penstock_apiserver_watches") or 0


async def test_kubectl_watches_rows(window: Window) -> None:
    await opened(window, "ball")

    process = await asyncio.create_subprocess_exec(
        window.control_plane.kubectl_program,
        f"--kubeconfig={window.control_plane.kubeconfig}",
        *("get", "ty", f"--namespace={window.namespace}", "--watch", "--output-watch-events"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    output = process.stdout

    async def rows(count: int) -> list[list[str]]:
        async with asyncio.timeout(60):
            return [(await output.readline()).decode().split() for _ in range(count)]

    try:
        first = await rows(2)
        window.shop.put(window.namespace, "kite", colour="blue")
        window.shop.put(window.namespace, "ball", colour="green")
        window.shop.remove(window.namespace, "kite")
        later = await rows(3)
    finally:
        process.kill()
        await process.wait()

    assert first == [["EVENT", "NAME", "COLOUR"], ["ADDED", "ball", "blue"]]
    assert later == [
        ["ADDED", "kite", "blue"],
        ["MODIFIED", "ball", "green"],
        ["DELETED", "kite", "blue"],
    ]


async def test_kubectl_describes(window: Window) -> None:
    await opened(window, "ball")

    described = await window.kubectl("describe", "ty", "ball")

    assert "Name:         ball" in described
    assert "Colour:  blue" in described


async def test_an_informer_stays_in_sync_through_changes_and_a_restart(window: Window) -> None:
    await opened(window, "ball", "bear")
    seen: list[tuple[str, str]] = []
    async with Client.open(config.from_environment(str(window.control_plane.kubeconfig))) as client:
        informer: Informer[Json] = Informer(client, TOY, decode=json.loads)
        informer.subscribe(lambda change: seen.append((change.type, change.key.name)))
        running = asyncio.create_task(informer.run())
        await asyncio.wait_for(informer.wait_synced(), 30)
        for number in range(200):
            window.shop.put(window.namespace, f"toy-{number % 20}", colour=f"c{number}")
        for number in range(5):
            window.shop.remove(window.namespace, f"toy-{number}")
        await window.until(lambda: same(informer, window))
        await window.replicas.pop().stop()
        window.shop = restarted(window.shop)
        for number in range(10, 15):
            window.shop.remove(window.namespace, f"toy-{number}")
        await window.start()
        window.shop.put(window.namespace, "late")
        await window.until(lambda: same(informer, window))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert ("DELETED", "toy-12") in seen
    assert ("ADDED", "late") in seen


def restarted(shop: ToyShop) -> ToyShop:
    """Return what a new process knows: what there is, and nothing of what was."""
    made = ToyShop(revision=shop.revision)
    for item in shop.view.snapshot().items:
        made.put(item.key.namespace, item.key.name, colour=item.obj["spec"]["colour"])
    return made


async def same(informer: Informer[Json], window: Window) -> bool:
    """Tell whether the informer has what is served."""
    known = {key: obj["spec"] for key, obj in informer.items().items()}
    items = window.shop.view.snapshot().items
    return known == {key_of(item.obj): item.obj["spec"] for item in items}


async def test_the_python_clients_informer_stays_in_sync(window: Window) -> None:
    await opened(window, "ball", "bear")
    api = new_client_from_config(str(window.control_plane.kubeconfig))
    read = partial(CustomObjectsApi(api).list_cluster_custom_object, TOY.group, TOY.version, "toys")

    def toys(**options: Any) -> Any:
        """List toys as the typed clients do, which the informer is made for."""
        found = read(**options)
        if options.get("watch"):
            return found
        metadata = SimpleNamespace(resource_version=found["metadata"]["resourceVersion"])
        return SimpleNamespace(items=found["items"], metadata=metadata)

    follower: Any = SharedInformer(toys)

    async def current() -> bool:
        known = {
            (toy["metadata"]["namespace"], toy["metadata"]["name"]): toy["spec"]
            for toy in follower.cache.list()
        }
        items = window.shop.view.snapshot().items
        return known == {item.order: item.obj["spec"] for item in items}

    follower.start()
    try:
        await window.until(current)
        for number in range(1000):
            window.shop.put(window.namespace, f"toy-{number % 20}", colour=f"c{number}")
            window.shop.remove(window.namespace, f"toy-{number % 7}")
            if number % 25 == 0:
                await asyncio.sleep(0.01)
        await window.until(current)
        await window.replicas.pop().stop()
        window.shop = restarted(window.shop)
        window.shop.remove(window.namespace, "toy-12")
        await window.start()
        window.shop.put(window.namespace, "late")
        await window.until(current)
    finally:
        await asyncio.to_thread(follower.stop)
        api.close()
