"""Which artifacts of a source can be planned: the current one, and those that are still stored.

Status names the current artifact only; the artifact server lists the rest to whoever may list such
objects. It is asked at our installation's own address, whatever a status says: the question carries
a token, and the status of an ExternalArtifact is written by third parties.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import aiohttp
import msgspec

from controllers.kustomize.sources import Mount, Sources
from crds import misfits
from crds.meta import Artifact
from toolkit.artifact.index import Entry, Index
from toolkit.errors import StalledError, TransientError

_SECONDS: Final = 10.0
_MAX_INDEX: Final = 4 << 20
_SHOWN: Final = 10
_decode: Final = msgspec.json.Decoder(Index).decode

Token = Callable[[], Awaitable[str]]


class UnknownRevisionError(StalledError):
    """Nothing is stored of this revision."""

    default_reason = "RevisionNotFound"


class Retained:
    """Finds stored artifacts by revision or digest; ``address`` is the artifact server's."""

    def __init__(self, *, address: str, token: Token) -> None:
        self._address = address
        self._token = token

    async def at(self, sources: Sources, revision: str) -> Sources:
        """Return the sources as they were at a revision, by its name or digest.

        Raises:
            UnknownRevisionError: nothing is stored of it, or it is one of several sources together.
            TransientError: what is stored cannot be found out.
        """
        if revision == sources.revision or _names(revision, sources.primary.artifact):
            return sources
        if len(sources.mounts) > 1:
            raise UnknownRevisionError(
                "of a build of several sources only the present revision can be planned: "
                f"'{sources.revision}'"
            )
        mount = sources.primary
        entries = await self._entries(mount)
        for entry in entries:
            artifact = _artifact(mount, entry)
            if entry.revision and _names(revision, artifact):
                return Sources(mounts=(replace(mount, artifact=artifact),))
        known = [entry.revision for entry in entries if entry.revision][:_SHOWN]
        there = ", ".join(dict.fromkeys([mount.artifact.revision, *known]))
        raise UnknownRevisionError(f"{mount.ref} has no revision '{revision}'; there are: {there}")

    async def _entries(self, mount: Mount) -> tuple[Entry, ...]:
        url = f"http://{self._address}/{mount.owner.path}/"
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
                raise _unknown(mount, f"HTTP status {response.status}")
            return _decode(body).artifacts
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError, OSError) as exc:
            raise _unknown(mount, misfits.told(exc) or type(exc).__name__) from exc


def _names(revision: str, artifact: Artifact) -> bool:
    """Tell whether a user may mean this artifact: its revision or digest, or the hash of either."""
    for text in (artifact.revision, artifact.digest):
        if revision in (text, text.rpartition(":")[2]):
            return True
    return False


def _artifact(mount: Mount, entry: Entry) -> Artifact:
    path = mount.owner.file(entry.file)
    place = mount.artifact.url.rpartition("/")[0]
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


def _unknown(mount: Mount, why: str) -> TransientError:
    return TransientError(f"what is stored of {mount.ref} cannot be found out: {why}")
