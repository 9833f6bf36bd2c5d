"""Paths within a source."""

import posixpath
from typing import Final

REMEDY: Final = "write it relative to the root, without '..'"


def leads_out(path: str) -> bool:
    """Tell whether a path points outside the directory that it is relative to."""
    return path.startswith("/") or posixpath.normpath(path).split("/")[0] == ".."
