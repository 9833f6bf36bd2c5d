"""An installation of an earlier version by kustomize becomes one of this version, under load."""

import pytest

from tests.e2e.node.cluster import Cluster
from tests.e2e.node.load import Noticed
from tests.tools import realnode

REASON = realnode.unavailable()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(REASON), reason=REASON or "a node can run here"),
]


def test_users_notice_nothing_of_an_upgrade(upgraded: list[Noticed]) -> None:
    """It is a rolling update of two replicas of each process, too."""
    assert upgraded == []


@pytest.mark.usefixtures("upgraded")
async def test_what_was_upgraded_is_found_well(real_node: Cluster) -> None:
    found = await real_node.penstock("check")

    assert found.code == 0, found.out
