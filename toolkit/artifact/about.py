"""Revision and metadata of a stored artifact, in a file beside it.

The status of an object describes only the newest artifact; older ones, which are retained for a
while, have only this file. It is a separate file, ``.about-<file>``, so that older stores stay
valid and other readers can ignore it. It has the digest of the content that it describes. A file
that describes other content, or is left from a killed writer, is ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from toolkit import untrusted

LIMIT: Final = 64 << 10
"""Bytes; metadata have at most a third of that."""

Backend = Literal["local", "bucket"]


class About(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of the file."""

    digest: str
    revision: str = ""
    metadata: dict[str, str] = {}

    def encoded(self) -> bytes:
        """Return the file; metadata that are too long are left out."""
        data = msgspec.json.encode(self)
        if len(data) <= LIMIT:
            return data
        return msgspec.json.encode(About(digest=self.digest, revision=self.revision[:512]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An artifact in a store; revision and metadata are empty if they were not recorded.

    Times are in seconds since the epoch. ``expires`` is the time at which the artifact may be
    deleted; None while it is among the newest.
    """

    file: str
    digest: str
    size: int
    modified: float
    revision: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    expires: float | None = None


def read(data: bytes, digest: str) -> About:
    """Return the description of the content with this digest; empty if it is of other content."""
    try:
        about = untrusted.load_json(data, About, size=len(data))
    except untrusted.UntrustedError:
        return About(digest=digest)
    return about if about.digest == digest else About(digest=digest)
