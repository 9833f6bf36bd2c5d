"""The engine's shared libraries: one for builds and keys, and one that has Helm as well.

Helm doubles the memory of a process that loads it, so only workers that run Helm do. Libraries are
in the cache directory under the digest of their sources. So they always match the sources, and
several versions can coexist. Finding a library needs no Go toolchain.
"""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

from toolkit.errors import StalledError

SOURCES: Final = Path(__file__).parents[2] / "engine"
NAME: Final = "libengine.so"
NAME_WITH_HELM: Final = "libenginehelm.so"
"""Beside the other."""
SHIPPED: Final = Path(__file__).with_name(NAME)
"""The path in a wheel; a checkout has no library there."""


def find() -> Path:
    """Return the library to load: ``$PENSTOCK_ENGINE``, the wheel's, or the one that was built.

    Raises:
        StalledError: it has not been built.

    """
    if chosen := os.environ.get("PENSTOCK_ENGINE"):
        return Path(chosen)
    if SHIPPED.is_file():
        return SHIPPED
    built = find_built()
    if built is None:
        raise StalledError(
            "the engine is not built: run python -m toolkit.native.build, "
            "or set PENSTOCK_ENGINE to a library",
            reason="EngineMissing",
        )
    return built


def with_helm(path: Path) -> Path:
    """Return the library with Helm that belongs to the one at ``path``."""
    return path.with_name(NAME_WITH_HELM)


def find_built() -> Path | None:
    """Return the library last built from our sources, by whichever Go version."""
    built = cache_directory().glob(f"{sources_digest()}-*/{NAME}")
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


def cache_directory() -> Path:
    """Return (and make) the directory that holds a directory for each build."""
    # The XDG base directory specification: a relative value is invalid and is ignored.
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".cache"
    path = base / "penstock" / "engine"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def sources_digest() -> str:
    """Return a digest of all inputs of the library except the toolchain."""
    digest = sha256()
    files = [*SOURCES.rglob("*.go"), *SOURCES.rglob("*.s"), *SOURCES.glob("go.*")]
    for path in sorted(file for file in files if not file.name.endswith("_test.go")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(SOURCES)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]
