"""The artifacts of a repository by their tags, with their origins."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from cli import errors
from cli.artifacts import document
from toolkit import regexp
from toolkit.objects import Json
from toolkit.remote import semver
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A tag, and its current artifact."""

    url: str
    digest: str
    source: str
    revision: str
    created: str

    def row(self, *, wide: bool) -> tuple[str, ...]:
        """Return the cells of the table."""
        cells = (self.url, self.digest, self.source, self.revision)
        return (*cells, self.created) if wide else cells

    def told(self) -> Json:
        """Return the JSON for ``-o json``, with the field names of Flux's metadata."""
        return {
            "url": f"oci://{self.url}",
            "digest": self.digest,
            "source_url": self.source,
            "source_revision": self.revision,
            "created": self.created,
        }


async def artifacts(
    registry: Registry, repository: Repository, tags: Iterable[str]
) -> tuple[Listed, ...]:
    """Return the artifacts of the tags; a few are requested at a time."""
    turn = asyncio.Semaphore(_AT_ONCE)

    async def look(tag: str) -> Listed:
        async with turn:
            found = await registry.resolve(repository, tag)
            manifest = await registry.manifest(repository, found.digest)
        says = manifest.annotations
        return Listed(
            url=f"{repository}:{tag}",
            digest=found.digest,
            source=says.get(document.SOURCE, ""),
            revision=says.get(document.REVISION, ""),
            created=says.get(document.CREATED, ""),
        )

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(look(tag)) for tag in tags]
    return tuple(task.result() for task in tasks)


def chosen(tags: Iterable[str], *, within: str, pattern: str) -> list[str]:
    """Return the tags of artifacts that both filters take, the last in the alphabet first.

    Raises:
        UsageError: a filter cannot be understood.
    """
    versions, matching = _range(within), _pattern(pattern)
    return [
        tag
        for tag in sorted(tags, reverse=True)
        if not _signature(tag) and _inside(tag, versions) and matching.search(tag)
    ]


_AT_ONCE: Final = 8
_SIGNATURES: Final = (".sig", ".att", ".sbom")


def _signature(tag: str) -> bool:
    """Tell whether a tag is for signatures: cosign's, or that of the list of referrers."""
    return tag.endswith(_SIGNATURES) or tag.startswith(("sha256-", "sha512-"))


def _inside(tag: str, versions: semver.Range | None) -> bool:
    if versions is None:
        return True
    try:
        return semver.Version.parse(tag) in versions
    except ValueError:
        return False


def _range(text: str) -> semver.Range | None:
    try:
        return semver.Range.parse(text) if text else None
    except ValueError as exc:
        raise errors.UsageError(f"--filter-semver: {exc}") from exc


def _pattern(text: str) -> Any:
    try:
        return regexp.compiled(text)
    except ValueError as exc:
        raise errors.UsageError(f"--filter-regex is {exc}") from exc
