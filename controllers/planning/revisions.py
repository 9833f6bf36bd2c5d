"""The artifacts of a source that can be planned: the current one, and older ones still in storage.

The status has only the current artifact. The artifact server lists the others for callers that may
list such objects. The request goes to the address of our own installation and never to that in a
status, because it carries a token, and third parties write the status of an ExternalArtifact.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final, Protocol

import aiohttp
import msgspec

from crds import misfits
from crds.meta import Artifact
from toolkit.artifact.index import Entry, Index
from toolkit.artifact.store import Owner
from toolkit.errors import StalledError, TransientError
from toolkit.objects import ObjectRef

_SECONDS: Final = 10.0
_MAX_INDEX: Final = 4 << 20
_SHOWN: Final = 10
_decode: Final = msgspec.json.Decoder(Index).decode

Token = Callable[[], Awaitable[str]]


class Stored(Protocol):
    """A source, and its present artifact."""

    @property
    def ref(self) -> ObjectRef:
        """Return the source."""

    @property
    def owner(self) -> Owner:
        """Return the object that the artifacts belong to."""

    @property
    def artifact(self) -> Artifact:
        """Return the artifact that its status names."""


class UnknownRevisionError(StalledError):
    """Nothing is stored of this revision."""

    default_reason = "RevisionNotFound"


class Retained:
    """Finds stored artifacts by revision or digest; ``address`` is the artifact server's."""

    def __init__(self, *, address: str, token: Token) -> None:
        self._address = address
        self._token = token

    async def find(self, source: Stored, revision: str) -> Artifact:
        """Return the artifact of a source for a revision or digest.

        Raises:
            UnknownRevisionError: no stored artifact has this revision.
            TransientError: the artifact server did not answer the request.
        """
        if names(revision, source.artifact):
            return source.artifact
        entries = await self._entries(source)
        for entry in entries:
            artifact = _artifact(source, entry)
            if entry.revision and names(revision, artifact):
                return artifact
        known = [entry.revision for entry in entries if entry.revision][:_SHOWN]
        there = ", ".join(dict.fromkeys([source.artifact.revision, *known]))
        raise UnknownRevisionError(f"{source.ref} has no revision '{revision}'; there are: {there}")

    async def _entries(self, source: Stored) -> tuple[Entry, ...]:
        url = f"http://{self._address}/{source.owner.path}/"
        headers = {"Authorization": f"Bearer {await self._token()}"}
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
                session.get(url, headers=headers, allow_redirects=False) as response,
            ):
                body = await response.content.read(_MAX_INDEX)
                while response.status == 200 and not response.content.at_eof():
                    body += await response.content.read(_MAX_INDEX)
                    if len(body) > _MAX_INDEX:
                        break
            if response.status != 200:
                raise _unknown(source, f"HTTP status {response.status}")
            return _decode(body).artifacts
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError, OSError) as exc:
            raise _unknown(source, misfits.told(exc) or type(exc).__name__) from exc


def names(revision: str, artifact: Artifact) -> bool:
    """Tell whether ``revision`` is the artifact's revision or digest, or the hash of either."""
    for text in (artifact.revision, artifact.digest):
        if revision in (text, text.rpartition(":")[2]):
            return True
    return False


def _artifact(source: Stored, entry: Entry) -> Artifact:
    path = source.owner.file(entry.file)
    place = source.artifact.url.rpartition("/")[0]
    stored = datetime.fromtimestamp(entry.modified, UTC).isoformat(timespec="seconds")
    return Artifact(
        digest=entry.digest,
        last_update_time=stored.replace("+00:00", "Z"),
        path=path,
        revision=entry.revision,
        url=f"{place}/{entry.file}",
        size=entry.size,
        metadata=entry.metadata,
    )


def _unknown(source: Stored, why: str) -> TransientError:
    return TransientError(f"what is stored of {source.ref} cannot be found out: {why}")
