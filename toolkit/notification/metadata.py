"""How much metadata an event has, whether its controller, its object or an Alert brings it."""

from collections.abc import Mapping
from typing import Final

MOST: Final = 64
"""Entries that are kept."""
LONGEST: Final = 2048
"""Characters of a key or a value that are kept."""


def bounded(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return as much metadata as is kept."""
    kept = list(metadata.items())[:MOST]
    return {key[:LONGEST]: value[:LONGEST] for key, value in kept}
