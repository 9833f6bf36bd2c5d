"""Names in the store: ``<kind>/<namespace>/<name>/<file>``, the same on disk and in URLs.

Every untrusted name is checked here before it is used in the file system. Names beginning with a
dot are reserved for the store: unfinished files, and the digest beside each artifact.
"""

import re
from pathlib import PurePosixPath
from typing import Final

from toolkit.errors import StalledError

UNFINISHED: Final = ".tmp-"
"""Prefix of files that are being written."""

DIGEST: Final = ".digest-"
"""Prefix of the file that holds the digest of the artifact with the rest of the name."""

ABOUT: Final = ".about-"
"""Prefix of the file that tells revision and metadata of that artifact."""

LINK: Final = ".link-"
"""Prefix of the object with the target of a link; the name of the link follows."""


CHARGED: Final = ".charged-"
"""Prefix of the empty file that names the namespace whose quota an owner's artifacts count in.

It is only there if this is another namespace than the owner's.
"""


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


def require_filename(name: str) -> str:
    """Return the name of an artifact's file if it is one.

    Raises:
        StalledError: it is not a name, or that of the link to the newest artifact.
    """
    if is_link(require_name(name)):
        raise StalledError(f"'{name}' is the link to the newest artifact, not the name of one")
    return name


def is_link(name: str) -> bool:
    """Tell whether a name is that of the link to the newest artifact."""
    return _LINK.fullmatch(name) is not None


def latest(filename: str) -> str:
    """Return the name of the link to the newest artifact, as in Flux.

    It is ``index.yaml`` for ``index-<hex>.yaml``, ``latest.tar.gz`` for versions of a chart and
    other archives, otherwise ``latest`` with the extension.
    """
    if filename.startswith("index-") and filename.endswith(".yaml"):
        return "index.yaml"
    packed = filename.endswith((".tar.gz", ".tgz"))
    suffix = ".tar.gz" if packed else PurePosixPath(filename).suffix
    return f"latest{suffix}"


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,254}")
_LINK: Final = re.compile(r"latest(\..*)?|.*-latest\.tgz|index\.yaml")
_SEGMENTS: Final = 4
