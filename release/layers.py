"""Layers of the image, cached by what they are made of.

Compiling modules and compressing take most of the time of a build, and of the three layers only
ours changes between two commits. A layer is found by the digest of its files, of the interpreter
that compiles them, and of what that interpreter runs. The cache holds the compressed layer: the
rest follows from it.
"""

import gzip
import os
import secrets
import zlib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from controlplane import cache
from controlplane.node.image import Layer
from release import inside, interpreter, trees
from release.interpreter import Interpreter

_KEPT: Final = 6
"""Cached layers of one name, the ones that were used last; a layer has up to 40 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """The interpreter that compiles and compresses, and the digest of its files."""

    python: Interpreter
    digest: str

    def layer(self, name: str, tree: trees.Tree, *, cached: bool) -> tuple[trees.Tree, Layer]:
        """Return ``tree`` with its bytecode, and the layer of both.

        Without ``cached`` the layer is made, whatever the cache has.

        Raises:
            ReleaseError: a module cannot be compiled.
        """
        recipe = sha256(Path(inside.__file__).read_bytes()).hexdigest()
        key = sha256(f"{self.digest} {recipe} {trees.digest(tree)}".encode()).hexdigest()
        path = cache.directory("image", "layers", name) / f"{key}.tar.gz"
        if cached and (found := _read(path)) is not None:
            bytecode = trees.read(found.archive)
            return {**tree, **{at: bytecode[at] for at in bytecode if at.endswith(".pyc")}}, found
        whole = interpreter.compiled(self.python, tree)
        archive = trees.archive(whole)
        layer = Layer(archive=archive, gzip=self.python.run("compress", stdin=archive))
        _keep(path, layer.gzip)
        return whole, layer


def _read(path: Path) -> Layer | None:
    """Return a cached layer, nothing if there is none or it is damaged."""
    try:
        os.utime(path)
        content = path.read_bytes()
        archive = gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return None
    return Layer(archive=archive, gzip=content) if archive else None


def _keep(path: Path, content: bytes) -> None:
    """Write the file at once, and remove those that were not used for the longest time."""
    written = path.with_name(f".{secrets.token_hex(8)}")
    written.write_bytes(content)
    written.replace(path)
    known = sorted(path.parent.glob("*.tar.gz"), key=_used, reverse=True)
    for old in known[_KEPT:]:
        old.unlink(missing_ok=True)


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process has removed it
        return 0.0
