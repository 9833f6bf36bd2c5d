"""The node that tests of this folder share: it has the image of this checkout and no more.

``installed`` and ``upgraded`` are installations with two replicas of each process, for the files
that share them; each ends in a file of its own.
"""

import asyncio
from collections.abc import Iterator

import pytest

from controlplane import plane
from controlplane.binaries import Variant
from release import building
from tests.e2e.node import upgrading
from tests.e2e.node.cluster import TEAM, Cluster, holdings, namespace
from tests.e2e.node.load import Noticed
from tests.tools import command, realnode

INSTALL = ("install", "--image", building.reference(), "--components", "ha", "--timeout", "8m")


@pytest.fixture(scope="session")
def real_node(
    tmp_path_factory: pytest.TempPathFactory, built_image: building.Image
) -> Iterator[Cluster]:
    """Start a node that has the image of this checkout."""
    archive = tmp_path_factory.mktemp("image") / "penstock.tar"
    archive.write_bytes(built_image.packed.archive)
    with plane.start("pytest-image", alternatives=8, variant=Variant.NODE) as running:
        running.load(archive)
        realnode.load_probe(running, archive.parent)
        yield Cluster(running, holdings(running))


@pytest.fixture(scope="session")
def installed(real_node: Cluster) -> command.Ended:
    """Install Penstock from the command line; ``test_leaving.py`` takes it away."""
    return asyncio.run(real_node.penstock(*INSTALL))


@pytest.fixture(scope="session")
def team(real_node: Cluster, installed: command.Ended) -> None:  # noqa: ARG001  # it comes first
    """Make the namespace of the users."""
    real_node.apply(namespace(TEAM))


@pytest.fixture(scope="session")
def upgraded(
    real_node: Cluster,
    built_image: building.Image,
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Noticed]:
    """Upgrade the previous version under load, and return what users noticed of it."""
    directory = tmp_path_factory.mktemp("upgrade")
    upgrading.install_previous(real_node, built_image, directory)
    real_node.apply(namespace(TEAM))
    return asyncio.run(upgrading.upgrade(real_node, directory))
