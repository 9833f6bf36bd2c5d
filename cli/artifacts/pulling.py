"""Pull an artifact: every byte is checked against the digest before a file is written.

1. The tag is resolved once; manifest and layer have the digests that it led to.
2. The layer is read to its end before the first file is made: a damaged one, one that is too large
   and one with a path that leads out leave nothing behind.
3. Files that are there are replaced, others stay. No symbolic link is made, and none is followed
   below the directory, so that nothing outside it is written.
"""

import asyncio
import errno
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cli import errors
from cli.artifacts import document
from cli.artifacts.address import Address
from toolkit.artifact import archive, beneath
from toolkit.artifact.archive import Found
from toolkit.errors import PenstockError
from toolkit.remote.oci.oci import Descriptor, Manifest
from toolkit.remote.oci.registry import Registry

MAX_LAYER: Final = 1 << 30
"""Bytes of a packed layer, as the controllers take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """The resolved digest, and the layer with its files on disk."""

    digest: str
    annotations: Mapping[str, str]
    layer: Path

    @property
    def source(self) -> str:
        """Return the source of the files, if the artifact states it."""
        return self.annotations.get(document.SOURCE, "")

    @property
    def revision(self) -> str:
        """Return the revision of the source."""
        return self.annotations.get(document.REVISION, "")


@asynccontextmanager
async def pulled(registry: Registry, address: Address) -> AsyncIterator[Pulled]:
    """Give the layer of an artifact, checked, for as long as the block runs.

    Raises:
        RegistryError: see ``toolkit.remote.oci.errors``.
        FailedError: it holds no files that can be unpacked.
    """
    found = await registry.resolve(address.repository, address.reference)  # 1
    manifest = await registry.manifest(address.repository, found.digest)
    layer = _layer(address, manifest)
    with TemporaryDirectory(prefix="penstock-artifact-") as room:
        file = Path(room) / "layer"
        await registry.blob(address.repository, layer, file, limit=MAX_LAYER)
        try:
            await asyncio.to_thread(archive.check, file)  # 2
        except PenstockError as exc:
            raise errors.FailedError(f"cannot unpack {address}: {exc}") from exc
        yield Pulled(digest=found.digest, annotations=manifest.annotations, layer=file)


def _layer(address: Address, manifest: Manifest) -> Descriptor:
    """Return the layer with the files: the first of Flux's type, else the first."""
    if manifest.is_index or not manifest.layers:
        raise errors.FailedError(f"{address} holds no files: it is an index, or has no layer")
    wanted = (one for one in manifest.layers if one.media_type == document.CONTENT)
    return next(wanted, manifest.layers[0])


def write(layer: Path, into: Path) -> int:
    """Write the files of a layer below an existing directory; return their number.

    Raises:
        UsageError: a file cannot be written, or a link is in its path (rule 3).
    """
    count = 0
    for found in archive.files(layer):
        try:
            _write(found, into)
        except OSError as exc:
            raise errors.UsageError(f"cannot write {into / found.name}: {_why(exc)}") from exc
        count += 1
    return count


def contents(layer: Path) -> dict[str, str]:
    """Return the digest of every file of a layer, with whether it can be executed."""
    known = {}
    for found in archive.files(layer):
        digest = hashlib.sha256()
        for piece in found.content:
            digest.update(piece)
        known[found.name] = f"{digest.hexdigest()}{'+x' if found.executable else ''}"
    return known


def _write(found: Found, into: Path) -> None:
    """Write one file, its directories first."""
    names = found.name.split("/")
    for depth in range(1, len(names)):
        with suppress(FileExistsError):
            beneath.made(into, names[:depth], 0o755)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK
    descriptor = beneath.opened(into, names, flags, 0o755 if found.executable else 0o644)
    with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor, no path
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileExistsError(0, "there is something that is not a file")
        file.truncate()
        file.writelines(found.content)


def _why(error: OSError) -> str:
    link = "a symbolic link is on the way, which is not followed"
    return link if error.errno in _LINKED else str(error.strerror)


_LINKED: Final = (errno.ELOOP, errno.ENOTDIR)
