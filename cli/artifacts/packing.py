"""Local files as a layer: a directory, a single file, or standard input."""

import hashlib
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

from cli import errors, progress
from cli.artifacts.document import Content
from cli.creating.flags import lines
from toolkit.artifact import archive, limits
from toolkit.artifact.ignore import Ignore
from toolkit.errors import PenstockError

STDIN: Final = "-"
IGNORED: Final = ("*.jpg", "*.jpeg", "*.gif", "*.png", "*.wmv", "*.flv", "*.tar.gz", "*.zip")
"""Patterns that ``flux push artifact`` ignores, besides files of version control."""


@contextmanager
def packed(
    path: str, stdin: IO[bytes], *, ignored: Iterable[str], resolve: bool
) -> Iterator[Content]:
    """Yield the files as a gzipped tarball on disk, which exists during the block.

    With ``resolve``, symbolic links are replaced by their targets; otherwise they are left out.

    Raises:
        UsageError: the path does not exist, or its files cannot be packed.
    """
    with TemporaryDirectory(prefix="penstock-artifact-") as name:
        room = Path(name)
        tree = _tree(path, stdin, room / "tree", resolve=resolve)
        layer = room / "layer.tar.gz"
        try:
            rules = Ignore.from_rules(lines(ignored), where="--ignore-paths")
            with layer.open("xb") as out:
                found = archive.pack(tree, out, rules)
            tarball = _unpacked(layer)
        except PenstockError as exc:
            raise errors.UsageError(f"cannot pack {path}: {exc}") from exc
        except OSError as exc:
            raise errors.UsageError(f"cannot pack {path}: {exc.strerror}") from exc
        yield Content(file=layer, digest=found.digest, unpacked=tarball, size=found.size)


def _tree(path: str, stdin: IO[bytes], staged: Path, *, resolve: bool) -> Path:
    """Return the directory to pack."""
    source = Path(path)
    if path == STDIN:
        staged.mkdir()
        _save(stdin, staged / "manifests.yaml")
        return staged
    if not source.exists():
        raise errors.UsageError(f"--path: there is no {path}")
    if source.is_file():
        staged.mkdir()
        shutil.copyfile(source, staged / source.name)
        return staged
    if resolve:
        _copy(source, staged, above=frozenset())
        return staged
    if links := sum(1 for _ in _links(source)):
        progress.waiting(
            f"{links} symbolic links are left out; --resolve-symlinks takes them along"
        )
    return source


def _save(stdin: IO[bytes], into: Path) -> None:
    """Write standard input to a file, within the bounds of an artifact."""
    bound, left = limits.DEFAULT.file_bytes, limits.DEFAULT.file_bytes
    with into.open("xb") as out:
        while chunk := stdin.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise errors.UsageError(f"standard input has more than {bound >> 20} MiB")
            out.write(chunk)


_CHUNK: Final = 1 << 20


def _links(source: Path) -> Iterator[Path]:
    for found in source.iterdir():
        if found.is_symlink():
            yield found
        elif found.is_dir() and found.name != ".git":
            yield from _links(found)


def _copy(source: Path, into: Path, *, above: frozenset[Path]) -> None:
    """Copy a directory and the targets of its links; refuse a link to a parent directory."""
    real = source.resolve()
    if real in above:
        raise errors.UsageError(f"--resolve-symlinks: {source} leads back to {real}")
    into.mkdir()
    for found in source.iterdir():
        if found.is_dir() and found.name != ".git":
            _copy(found, into / found.name, above=above | {real})
        elif found.is_file():
            shutil.copy(found, into / found.name)
        elif found.is_symlink():
            raise errors.UsageError(f"--resolve-symlinks: {found} is a broken link")


def _unpacked(layer: Path) -> str:
    """Return the digest of the tarball in a layer, which an image's config names."""
    digest, inflate = hashlib.sha256(), zlib.decompressobj(31)
    with layer.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(inflate.decompress(chunk))
    digest.update(inflate.flush())
    return f"sha256:{digest.hexdigest()}"
