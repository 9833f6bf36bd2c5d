"""What a store knows of an artifact beside its bytes: revision and metadata, as they were stored.

Status tells of the newest artifact alone; the older ones, which stay for a while, have only this.
It lies in a file of its own, ``.about-<file>``, so that stores from before it existed stay as they
are, and anyone who does not know it passes it over. It names the digest of the content that it
speaks of: what is left of another content, or of a writer that was killed in between, tells
nothing.
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
    """An artifact in a store; revision and metadata are empty where nobody wrote them down.

    Times are in seconds since the epoch; ``expires`` is when it may be deleted, ``None`` while it
    is among the newest.
    """

    file: str
    digest: str
    size: int
    modified: float
    revision: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    expires: float | None = None


def read(data: bytes, digest: str) -> About:
    """Return what the file tells of content with this digest; nothing if it is of another."""
    try:
        about = untrusted.load_json(data, About, size=len(data))
    except untrusted.UntrustedError:
        return About(digest=digest)
    return about if about.digest == digest else About(digest=digest)
