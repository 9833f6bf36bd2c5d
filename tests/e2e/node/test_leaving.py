"""What the command has installed it takes away: workloads stay, and nothing of its own does."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.node.cluster import PLACE, TEAM, Cluster, uids
from tests.e2e.node.load import load
from tests.tools import realnode

REASON = realnode.unavailable()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(REASON), reason=REASON or "a node can run here"),
    pytest.mark.usefixtures("installed", "team"),
]


async def test_logs_come_from_the_kubelet(real_node: Cluster) -> None:
    words = ("logs", "--flux-namespace", PLACE, "-n", PLACE, "--kind", "Kustomization")

    shown = await real_node.penstock(*words, "--since=1h")
    none = await real_node.penstock(*words, "--since-time=2100-01-01T00:00:00Z")

    assert (shown.code, none.code) == (0, 0), shown.err + none.err
    assert f"Kustomization/{PLACE}.{PLACE} - " in shown.out
    assert not none.out


async def test_uninstalling_leaves_workloads(real_node: Cluster, tmp_path: Path) -> None:
    async with load(real_node, tmp_path):
        before = real_node.of("pods", f"--namespace={TEAM}")["items"]

    # What test_bootstrap.py has left is bootstrap's own: the credentials of the repository, and the
    # objects that follow it.
    done = await real_node.penstock("uninstall", "--silent")

    assert done.code == 0, done.err
    after = real_node.of("pods", f"--namespace={TEAM}")["items"]
    assert {pod["metadata"]["labels"]["app"] for pod in after} == {"web", "charted"}
    assert uids(after) == uids(before)
    assert not any("deletionTimestamp" in pod["metadata"] for pod in after)
    names = {obj["metadata"]["name"] for obj in real_node.of("namespaces")["items"]}
    assert PLACE not in names


async def test_the_rest_goes_where_that_is_asked_for(real_node: Cluster) -> None:
    done = await real_node.penstock("uninstall", "--silent", "--custom-resources")

    assert done.code == 0, done.err
    await asyncio.to_thread(real_node.kubectl, "delete", "namespace", TEAM, "--wait=true")
    await real_node.emptied()
