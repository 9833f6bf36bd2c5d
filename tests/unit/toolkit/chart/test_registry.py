"""The version of a chart in a registry is found without holding up anybody."""

import asyncio
from pathlib import Path

import pytest

from toolkit.chart import registry
from toolkit.chart.errors import ChartNotFoundError
from toolkit.remote.oci.oci import Descriptor, Manifest, Repository

REPOSITORY = Repository.parse("oci://registry.example.com/app")


class Listed:
    """A registry that lists these tags, and is asked for nothing else."""

    def __init__(self, *tags: str) -> None:
        self._tags = tags

    async def tags(self, repository: Repository) -> tuple[str, ...]:
        """Return them."""
        assert repository == REPOSITORY
        return self._tags

    async def resolve(self, repository: Repository, reference: str) -> Descriptor:
        """Fail: no manifest is wanted."""
        raise AssertionError((repository, reference))

    async def manifest(self, repository: Repository, digest: str) -> Manifest:
        """Fail: no manifest is wanted."""
        raise AssertionError((repository, digest))

    async def blob(
        self, repository: Repository, descriptor: Descriptor, into: Path, *, limit: int
    ) -> None:
        """Fail: no package is wanted."""
        raise AssertionError((repository, descriptor, into, limit))


async def test_the_highest_version_in_the_range_is_chosen() -> None:
    listed = Listed("1.0.0", "1.2.0_b", "2.0.0", "latest")

    assert await registry.choose(listed, REPOSITORY, "1.x") == "1.2.0+b"
    with pytest.raises(ChartNotFoundError, match="no tag with a version"):
        await registry.choose(listed, REPOSITORY, "3.x")


async def test_others_have_their_turn_while_tags_are_compared() -> None:
    """A registry may list 200,000, which takes six seconds."""
    listed = Listed(*(f"1.0.{number}" for number in range(1_000)))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await registry.choose(listed, REPOSITORY, "*")
