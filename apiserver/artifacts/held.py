"""The artifacts of one source, from its status and from the index of the store.

Pure. The current artifact is always known, from the status. The others come from the store's index.
For artifacts stored before the index had revisions, earlier statuses may have them.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Literal
from urllib.parse import urlsplit

from apiserver.artifacts.observed import Offered, Source
from crds import EXTERNAL_ARTIFACT
from toolkit.artifact.index import Entry, Index
from toolkit.artifact.store import Owner

Backend = Literal["", "local", "bucket", "external"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One artifact of a source. Times are RFC 3339, and empty if unknown."""

    owner: Owner
    api_version: str
    source_uid: str
    digest: str
    revision: str
    others: tuple[str, ...] = ()
    """Further revisions with this content."""
    size: int = 0
    file: str
    path: str
    url: str
    stored: str
    expires: str = ""
    current: bool
    backend: Backend = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name of the object that shows it.

        It is unambiguous from both ends: neither a kind nor a digest holds a dot.
        """
        return f"{self.owner.kind.lower()}.{self.owner.name}.{_short(self.digest)}"

    @property
    def revisions(self) -> tuple[str, ...]:
        """Return all revisions with this content."""
        return tuple(filter(None, (self.revision, *self.others)))


def held(
    source: Source, index: Index | None, seen: Mapping[str, str], *, ours: bool
) -> tuple[Held, ...]:
    """Return the artifacts of a source, the current one first, one per content.

    ``index`` is None until the store has answered. ``seen`` are revisions by digest from earlier
    statuses. ``ours`` tells whether this installation's store has the artifact.
    """
    offered = source.artifact
    if offered is None or not _own(source.owner, offered):
        return ()
    found: dict[str, Held] = {offered.digest: _current(source, offered, index, ours=ours)}
    if not ours or index is None:
        return tuple(found.values())
    for entry in index.artifacts:
        revision = entry.revision or seen.get(entry.digest, "")
        known = found.get(entry.digest)
        if known is None:
            found[entry.digest] = _retained(source, offered, entry, index, revision)
        elif revision and revision not in known.revisions:
            found[entry.digest] = _also(known, revision)
    return tuple(found.values())


def _own(owner: Owner, offered: Offered) -> bool:
    """Tell whether an artifact can be the owner's; only third parties keep theirs elsewhere."""
    return owner.kind == EXTERNAL_ARTIFACT.kind or owner.owns(offered.path)


def _current(source: Source, offered: Offered, index: Index | None, *, ours: bool) -> Held:
    path = offered.path or urlsplit(offered.url).path.lstrip("/")
    return Held(
        owner=source.owner,
        api_version=source.api_version,
        source_uid=source.uid,
        digest=offered.digest,
        revision=offered.revision,
        size=max(offered.size or 0, 0),
        file=path.rpartition("/")[2],
        path=path,
        url=offered.url,
        stored=offered.last_update_time,
        current=True,
        backend=_backend(index) if ours else "external",
        metadata=offered.metadata or {},
    )


def _retained(source: Source, offered: Offered, entry: Entry, index: Index, revision: str) -> Held:
    path = f"{source.owner.path}/{entry.file}"
    parts = urlsplit(offered.url)
    return Held(
        owner=source.owner,
        api_version=source.api_version,
        source_uid=source.uid,
        digest=entry.digest,
        revision=revision,
        size=entry.size,
        file=entry.file,
        path=path,
        url=f"{parts.scheme}://{parts.netloc}/{path}",
        stored=timestamp(entry.modified),
        expires="" if entry.expires is None else timestamp(entry.expires),
        current=False,
        backend=_backend(index),
        metadata=entry.metadata,
    )


def _also(known: Held, revision: str) -> Held:
    return replace(known, others=(*known.others, revision))


def _backend(index: Index | None) -> Backend:
    match index.backend if index else "":
        case "local":
            return "local"
        case "bucket":
            return "bucket"
    return ""


def timestamp(moment: float) -> str:
    """Return seconds since the epoch as the API writes times."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find(candidates: Iterable[Held], wanted: str) -> tuple[Held, ...]:
    """Return the artifacts with a name, a digest or a revision."""
    listed = list(candidates)
    for matches in (_named, _digested, _revised):
        if found := [each for each in listed if matches(each, wanted)]:
            return tuple(found)
    return ()


def _named(each: Held, wanted: str) -> bool:
    return each.name == wanted


def _digested(each: Held, wanted: str) -> bool:
    return each.digest == wanted


def _revised(each: Held, wanted: str) -> bool:
    return wanted in each.revisions


def _short(digest: str) -> str:
    value = digest.rpartition(":")[2]
    if not _HEX.fullmatch(value):
        value = hashlib.sha256(digest.encode()).hexdigest()
    return value[:_SHOWN]


_SHOWN: Final = 12
_HEX: Final = re.compile(r"[0-9a-f]{12,}")
