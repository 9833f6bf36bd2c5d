"""What a tenant's registry and patterns may take of the time of everybody."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from controllers.source import ocirepository
from crds.source_oci import OCIRepositoryRef
from tests.tools import waiting
from toolkit.remote.oci.oci import Repository

REPOSITORY = Repository.parse("oci://registry.example.com/app")
SLOW = "(a|aa){300}$"
"""A pattern that takes 0.4 ms for each tag of a's."""


class Listed:
    """A registry that lists these tags."""

    def __init__(self, *tags: str) -> None:
        self._tags = tags

    async def tags(self, repository: Repository) -> tuple[str, ...]:
        """Return them."""
        assert repository == REPOSITORY
        return self._tags


async def test_the_highest_version_of_the_tags_that_the_pattern_fits_is_taken() -> None:
    ref = OCIRepositoryRef(semver=">=1.0.0-0", semver_filter="-prod$")
    listed = Listed("1.0.0-prod", "1.1.0", "latest-prod")

    assert await ocirepository.highest(ref, listed, REPOSITORY) == "1.0.0-prod"


@pytest.mark.parametrize(
    ("semver", "pattern", "versions", "chosen"),
    [
        ("104.x", "", True, "104.2.0_up58.0.0"),
        ("104.x", r"\+up57", True, "104.1.1_up57.0.3"),
        ("104.x", "_up57", True, "104.1.1_up57.0.3"),
        ("104.x", "", False, "104.0.0"),
    ],
)
async def test_a_chart_with_build_metadata_is_found_under_its_tag(
    semver: str,
    pattern: str,
    versions: bool,  # noqa: FBT001 - a row
    chosen: str,
) -> None:
    ref = OCIRepositoryRef(semver=semver, semver_filter=pattern)
    listed = Listed("104.0.0", "104.1.1_up57.0.3", "104.2.0_up58.0.0", "latest_x")

    assert await ocirepository.highest(ref, listed, REPOSITORY, versions=versions) == chosen


async def test_a_search_that_takes_too_long_ends_with_its_caller() -> None:
    """Else its thread goes on for a minute, and there are few of them."""
    ref = OCIRepositoryRef(semver="*", semver_filter=SLOW)
    listed = Listed(*(f"1.0.{number}-{'a' * 120}b" for number in range(200_000)))
    with ThreadPoolExecutor(1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ocirepository.highest(ref, listed, REPOSITORY)

        assert threads.submit(str, "free").result(waiting.SECONDS) == "free"
