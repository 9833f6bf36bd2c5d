"""``logs`` of a cluster: what the API server fetches from a kubelet, beside ``flux logs``."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.cli.conftest import Flux
from tests.fakes.kubelet import Kubelet, kubelet
from tests.tools.administrator import Administrator

PART_OF = {"app.kubernetes.io/part-of": "flux"}
PASS = {"level": "info", "controllerKind": "Kustomization", "namespace": "apps", "name": "shop"}
LINES = {
    "source": [
        {
            **PASS,
            "ts": "2026-01-01T00:00:02Z",
            "msg": "stored artifact",
            "controllerKind": "Bucket",
        },
        {**PASS, "ts": "2026-01-01T00:00:04Z", "msg": "another name", "name": "other"},
    ],
    "kustomize": [
        {**PASS, "ts": "2026-01-01T00:00:01Z", "msg": "applied"},
        {**PASS, "ts": "2026-01-01T00:00:03Z", "level": "error", "msg": "another level"},
        {**PASS, "ts": "2026-01-01T00:00:05Z", "msg": "another namespace", "namespace": "team"},
    ],
}


def deployment(name: str) -> dict[str, Any]:
    """Return a Deployment without replicas: its pods are those that the test binds to a node."""
    container = {"name": "manager", "image": "example.com/x"}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "labels": PART_OF}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def pod(app: str, name: str, node: str, *containers: str) -> dict[str, Any]:
    spec = {
        "nodeName": node,
        "containers": [{"name": each, "image": "example.com/x"} for each in containers],
    }
    metadata = {"name": name, "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture
async def node(
    cluster: Any, administrator: Administrator, namespace: str
) -> AsyncIterator[Kubelet]:
    """Give a node with a pod of each of two controllers, one of which has a sidecar."""
    async with kubelet(administrator, namespace) as made:
        for app in LINES:
            cluster.write(deployment(app))
        path = f"/api/v1/namespaces/{namespace}/pods"
        administrator.send("POST", path, pod("source", "source", made.node, "proxy", "manager"))
        administrator.send("POST", path, pod("kustomize", "kustomize", made.node, "manager"))
        made.logs.update(
            {app: [json.dumps(each) for each in lines] for app, lines in LINES.items()}
        )
        yield made


def words(text: str) -> list[list[str]]:
    return sorted(line.split() for line in text.splitlines())


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        (("-A",), 5),
        (("-n", "team"), 1),
        (("-A", "--kind=bucket"), 1),
        (("-A", "--name=other"), 1),
        (("-A", "--level=error"), 1),
        (("-A", "--since-time=2026-01-01T00:00:00Z"), 5),
    ],
    ids=["all", "namespace", "kind", "name", "level", "since"],
)
async def test_both_print_the_same_lines(
    node: Kubelet, namespace: str, penstock: Any, flux: Flux, chosen: tuple[str, ...], *, count: int
) -> None:
    there = ("logs", "--flux-namespace", namespace, *chosen)

    ours = await asyncio.to_thread(penstock, *there)
    theirs = await asyncio.to_thread(flux, *there)

    assert (ours.code, theirs.code) == (0, 0), ours.err + theirs.err
    assert words(ours.out) == words(theirs.out)
    assert len(ours.out.splitlines()) == count
    assert ours.out.splitlines() == sorted(ours.out.splitlines()), "sorted by their time"
    assert {container for _, container, _ in node.asked if container} == {"manager"}


@pytest.mark.parametrize(
    "flags",
    [("--tail=1", "--since=90s"), ("--follow",), ("--since-time=2026-01-01T00:00:00Z",)],
    ids=["tail", "follow", "time"],
)
async def test_both_ask_the_kubelet_for_the_same_part(
    node: Kubelet, namespace: str, penstock: Any, flux: Flux, flags: tuple[str, ...]
) -> None:
    there = ("logs", "--flux-namespace", namespace, "-A", *flags)

    ours = await asyncio.to_thread(penstock, *there)
    asked, node.asked = node.asked, []
    theirs = await asyncio.to_thread(flux, *there)

    assert (ours.code, theirs.code) == (0, 0), ours.err + theirs.err
    parts = [sorted(map(str, (query for _, _, query in each))) for each in (asked, node.asked)]
    assert parts[0] == parts[1]
    assert parts[0][0] != "{}"


async def test_a_log_that_cannot_be_read_hides_no_other(
    node: Kubelet, namespace: str, penstock: Any, flux: Flux
) -> None:
    del node.logs["source"]
    there = ("logs", "--flux-namespace", namespace, "-A")

    ours = await asyncio.to_thread(penstock, *there)
    theirs = await asyncio.to_thread(flux, *there)

    assert (ours.code, theirs.code) == (1, 1)
    assert len(ours.out.splitlines()) == len(LINES["kustomize"])
    assert f"cannot read the log of Pod {namespace}/source: " in ours.err
    assert "1 of 2 logs could not be read" in ours.err


async def test_two_starts_exclude_each_other(namespace: str, penstock: Any) -> None:
    there = ("logs", "--flux-namespace", namespace)

    both = await asyncio.to_thread(
        penstock, *there, "--since=1m", "--since-time=2026-01-01T00:00:00Z"
    )
    wrong = await asyncio.to_thread(penstock, *there, "--since-time=yesterday")

    assert (both.code, wrong.code) == (1, 1)
    assert "--since and --since-time exclude each other" in both.err
    assert "'yesterday' is not a time such as" in wrong.err


def test_a_cluster_without_controllers_is_told_with_the_remedy(
    namespace: str, cluster: Any, penstock: Any
) -> None:
    nobody = penstock("logs", "--flux-namespace", namespace)
    cluster.write(deployment("source"))
    podless = penstock("logs", "--flux-namespace", namespace)

    assert (nobody.code, podless.code) == (1, 1)
    assert f"no Deployment labelled app.kubernetes.io/part-of=flux in namespace {namespace}" in (
        nobody.err
    )
    assert "has a pod: see `penstock check`" in podless.err
