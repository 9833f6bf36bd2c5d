"""What to say when the disk refuses a file: which volume is full, and which flag names it.

The address of a repository, or the name of an artifact, does not tell that.
"""

import errno
from pathlib import Path
from typing import Final

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def why(error: OSError, place: Path | str, *, flag: str = "TMPDIR") -> str:
    """Return the reason; ``flag`` is the setting that chooses the volume of ``place``."""
    cause = error.strerror or str(error)
    if error.errno not in _FULL:
        return cause
    return f"{cause}: the volume of '{place}' ({flag}) is full; free space or enlarge it"


def is_full(error: OSError) -> bool:
    """Tell whether the volume has no room."""
    return error.errno in _FULL
