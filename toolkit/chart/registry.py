"""Charts in a registry: choose the version for a range, and pull its package.

A version is a tag (``+`` is written as ``_``). The tag is resolved to a digest once; this digest is
verified and pulled, even if the tag moves meanwhile.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from toolkit.chart import limits, version
from toolkit.chart.errors import ChartNotFoundError, ChartPullError, ChartReferenceError
from toolkit.remote import semver
from toolkit.remote.oci.errors import RegistryAuthError, RegistryError
from toolkit.remote.oci.oci import Descriptor, Manifest, Repository
from toolkit.remote.semver import Version

CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
CONTENT: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_CONTENTS: Final = (CONTENT, "application/tar+gzip")  # the second as Helm wrote it before 3.7


class Registry(Protocol):
    """The part of ``toolkit.remote.oci.registry.Registry`` that is used."""

    async def resolve(self, repository: Repository, reference: str) -> Descriptor:
        """Return the descriptor to which a tag points now."""
        ...

    async def tags(self, repository: Repository) -> tuple[str, ...]:
        """Return all tags."""
        ...

    async def manifest(self, repository: Repository, digest: str) -> Manifest:
        """Return a manifest by its digest."""
        ...

    async def blob(
        self, repository: Repository, descriptor: Descriptor, into: Path, *, limit: int
    ) -> None:
        """Write a blob to a file."""
        ...


async def choose(registry: Registry, repository: Repository, wanted: str) -> str:
    """Return the version for ``wanted``; a range needs one list of the tags.

    Raises:
        ChartReferenceError: ``wanted`` is neither a version nor a range.
        ChartNotFoundError: no tag is in the range.
        RegistryError: the tags cannot be listed.
    """
    if _is_version(wanted):
        return wanted
    try:
        within = version.constraint(wanted)
    except ValueError as exc:
        raise ChartReferenceError(f"spec.version: {exc}") from exc
    tags = await registry.tags(repository)
    # Off the loop: a registry may list 200,000 tags.
    found = await asyncio.to_thread(
        lambda: semver.highest((version.from_tag(tag) for tag in tags), within)
    )
    if found is None:
        raise ChartNotFoundError(f"'{repository}' has no tag with a version matching '{wanted}'")
    return found


async def resolve(registry: Registry, repository: Repository, number: str) -> Descriptor:
    """Return the current manifest of a version; this costs one HEAD.

    Raises:
        RegistryError: there is no such tag, or the registry cannot be reached.
    """
    return await registry.resolve(repository, version.to_tag(number))


async def pull(registry: Registry, repository: Repository, digest: str, into: Path) -> None:
    """Write the chart of the manifest with this digest to ``into``.

    Raises:
        ChartPullError: the manifest is not a chart.
        RegistryError: the chart is too large, or cannot be fetched.
    """
    manifest = await registry.manifest(repository, digest)
    if manifest.config is None or manifest.config.media_type != CONFIG:
        raise ChartPullError(f"'{repository}@{digest}' is not a Helm chart")
    layers = [layer for layer in manifest.layers if layer.media_type in _CONTENTS]
    if not layers:
        raise ChartPullError(f"'{repository}@{digest}' has no layer with a chart")
    await registry.blob(repository, layers[0], into, limit=limits.CHART_BYTES)


@contextmanager
def pulling(repository: Repository) -> Iterator[None]:
    """Convert errors of the registry to ``ChartPullError``, except failed authentication.

    Raises:
        ChartPullError: the body raised a ``RegistryError``.
    """
    try:
        yield
    except RegistryAuthError as exc:
        raise ChartPullError(str(exc), reason=exc.reason) from exc
    except RegistryError as exc:
        message = f"the chart '{repository}' cannot be pulled: {exc}"
        raise ChartPullError(message) from exc


def _is_version(text: str) -> bool:
    try:
        Version.parse(text)
    except ValueError:
        return False
    return True
