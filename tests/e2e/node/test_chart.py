"""The chart, released by Helm: the processes work, and its removal leaves the cluster as it was."""

from pathlib import Path

import pytest

from release import building
from tests.e2e.node.cluster import PLACE, TEAM, Cluster, components, namespace
from tests.e2e.node.load import load
from tests.tools import realnode
from tests.tools.helmcli import Helm

REASON = realnode.unavailable()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(REASON), reason=REASON or "a node can run here"),
]
CHART = Path(__file__).parents[3] / "deploy" / "chart"
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
REGISTERED = "mutatingwebhookconfigurations,validatingwebhookconfigurations,apiservices"


async def test_a_release_works_and_leaves_nothing(
    real_node: Cluster, helm: Helm, tmp_path: Path
) -> None:
    to = ("--namespace", PLACE, "--kubeconfig", real_node.running.kubeconfig)
    name, _, tag = building.reference().rpartition(":")
    real_node.kubectl("create", "namespace", PLACE)
    real_node.kubectl("label", "namespace", PLACE, RESTRICTED)

    values = (f"--set=image.repository={name}", f"--set=image.tag={tag}", "--set=crds.keep=false")
    helm("install", "penstock", CHART, *to, *values)

    for each in sorted(components()):
        real_node.kubectl("rollout", "status", f"deployment/{each}", f"--namespace={PLACE}")
    found = await real_node.penstock("check")
    assert found.code == 0, found.out
    real_node.apply(namespace(TEAM))
    async with load(real_node, tmp_path / "git") as users:
        assert await users.noticed() == []

    real_node.kubectl("delete", "namespace", TEAM, "--wait=true")
    chosen = "--selector=app.kubernetes.io/instance=penstock-system"
    real_node.kubectl("delete", REGISTERED, chosen)
    helm("uninstall", "penstock", *to)
    real_node.kubectl("delete", "namespace", PLACE, "--wait=true")
    await real_node.emptied()
