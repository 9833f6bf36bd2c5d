"""Limits for the size of an artifact, the same for packing and unpacking."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one artifact's content."""

    entries: int = 50_000
    """Files and directories."""
    total_bytes: int = 1 << 30
    file_bytes: int = 512 << 20
    depth: int = 64
    """Segments of a path."""


DEFAULT: Final = Limits()

PACKED: Final = 1 << 30
"""Bytes of an artifact as it is stored and sent."""
