"""Names in the store: ``<kind>/<namespace>/<name>/<file>``, the same on disk and in URLs.

Every name that comes from outside passes through here before it touches the file system. Names
beginning with a dot are the store's own: unfinished files, and the digest beside each artifact.
"""

import re
from pathlib import PurePosixPath
from typing import Final

from toolkit.errors import StalledError

UNFINISHED: Final = ".tmp-"
"""Prefix of what is being written."""

DIGEST: Final = ".digest-"
"""Prefix of the file that holds the digest of the artifact with the rest of the name."""


def require_name(part: str) -> str:
    """Return one segment of a path if it is one.

    Raises:
        StalledError: it is empty, hidden, or could lead elsewhere.
    """
    if not _NAME.fullmatch(part):
        raise StalledError(f"'{ascii(part[:100])[1:-1]}' is not valid in an artifact path")
    return part


def require_path(path: str) -> str:
    """Return the path of an artifact, kind to file, if it is one.

    Raises:
        StalledError: it has not four segments, or one of them is not valid.
    """
    parts = path.split("/")
    if len(parts) != _SEGMENTS:
        raise StalledError(f"'{ascii(path[:300])[1:-1]}' is not an artifact path")
    return "/".join(require_name(part) for part in parts)


def latest(filename: str) -> str:
    """Return the name of the link to the newest artifact: ``latest.tar.gz`` beside tarballs."""
    suffix = ".tar.gz" if filename.endswith(".tar.gz") else PurePosixPath(filename).suffix
    return f"latest{suffix}"


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,254}")
_SEGMENTS: Final = 4
