"""What kustomize has installed the command takes away, whatever happened to it in between."""

import pytest

from tests.e2e.node.cluster import TEAM, Cluster
from tests.tools import realnode

REASON = realnode.unavailable()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(REASON), reason=REASON or "a node can run here"),
]


@pytest.mark.usefixtures("upgraded")
async def test_uninstalling_leaves_the_cluster_as_it_was(real_node: Cluster) -> None:
    done = await real_node.penstock("uninstall", "--silent", "--custom-resources")

    assert done.code == 0, done.err
    real_node.kubectl("delete", "namespace", TEAM, "--wait=true")
    await real_node.emptied()
