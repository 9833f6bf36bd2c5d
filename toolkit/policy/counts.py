"""How many references a list of an object may have.

Controllers keep an index of who uses what. It is made anew at each change of an object, on the
event loop of everybody, and each reference is looked up in each pass.
"""

from collections.abc import Sequence
from typing import Final

from toolkit.errors import StalledError

DEPENDENCIES: Final = 1_000
"""Entries of ``spec.dependsOn``."""
INCLUDES: Final = 256
"""Entries of ``spec.include``."""
SUBSTITUTIONS: Final = 256
"""Entries of ``spec.postBuild.substituteFrom``, of which each is read in each pass."""


def require_few(field: str, given: Sequence[object], most: int) -> None:
    """Refuse a list with more references than that.

    Raises:
        StalledError: there are too many.
    """
    if len(given) > most:
        raise StalledError(
            f"{field} has {len(given)} references, more than {most}: remove some",
            reason="ValidationFailed",
        )
