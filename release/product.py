"""Our own part of the image: the packages of the processes, the engine, the licence."""

import os
from pathlib import Path
from typing import Final

from release import interpreter
from release.errors import ReleaseError
from release.trees import Node
from toolkit.native import build, library

ROOT: Final = Path(__file__).parents[1]
HOME: Final = "opt/penstock"
PACKAGES: Final = ("crds", "toolkit", "certs", "controllers", "webhooks", "apiserver")
"""What the processes import of ours."""
ENGINES: Final = (library.NAME, library.NAME_WITH_HELM)
_PAPERS: Final = ("LICENSE", "NOTICE")
_KEPT: Final = frozenset({".py", ".yaml", ".json"})


def tree(architecture: str) -> dict[str, Node]:
    """Return what is ours, below ``HOME``; bytecode is made of it later.

    Raises:
        ReleaseError: there is no engine for ``architecture``.
    """
    files = [path for name in PACKAGES for path in ROOT.joinpath(name).rglob("*")]
    found = {
        str(path.relative_to(ROOT)): Node(content=path.read_bytes())
        for path in [*files, *(ROOT / name for name in _PAPERS)]
        if path.is_file() and (path.suffix in _KEPT or path.name in _PAPERS)
    }
    for path in engines(architecture):
        found[path.name] = Node(content=path.read_bytes(), mode=0o755)
    return {f"{HOME}/{name}": node for name, node in found.items()}


def engines(architecture: str) -> tuple[Path, ...]:
    """Return the engine's libraries: what ``PENSTOCK_ENGINE`` names, or what is built here.

    Raises:
        ReleaseError: they would be for another architecture.
    """
    native = interpreter.of_this_machine()
    if architecture != native and "PENSTOCK_ENGINE" not in os.environ:
        raise ReleaseError(
            f"the engine is built for {native} on this machine: build it on {architecture},"
            " and name the library in PENSTOCK_ENGINE"
        )
    first = build.build()
    return first, library.with_helm(first)
