"""What kubectl and a Kubernetes client make of lists and watches, through the real aggregator."""

import asyncio
import json

import pytest
import yaml

from tests.contract.apiserver.window import BASE, Window
from tests.tools.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def opened(window: Window, *names: str) -> None:
    """Serve some toys, red but for the last one."""
    for name in names:
        window.shop.put(window.namespace, name)
    if names:
        window.shop.put(window.namespace, names[-1], colour="blue")
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

    missing = await window.refused("get", "ty", "boat")
    field = await window.refused("get", "ty", "--field-selector", "spec.size=3")
    token = await window.refused("get", "--raw", f"{BASE}/toys?continue=junk")
    match = await window.refused("get", "--raw", f"{BASE}/toys?resourceVersionMatch=Exact")

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

    async def wait(condition: str) -> str:
        return await window.kubectl("wait", f"--for={condition}", "ty/ball", "--timeout=30s")

    async with asyncio.TaskGroup() as group:
        green = group.create_task(wait("jsonpath={.spec.colour}=green"))
        gone = group.create_task(wait("delete"))
        await until(lambda: len(window.shop.view._waiters.get(window.namespace, ())) == 2)
        window.shop.put(window.namespace, "ball", colour="green")
        await green
        window.shop.remove(window.namespace, "ball")

    assert green.result().strip() == "toy.gitops.penstock.dev/ball condition met"
    assert gone.result().strip() == "toy.gitops.penstock.dev/ball condition met"


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
