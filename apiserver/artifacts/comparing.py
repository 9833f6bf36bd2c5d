"""``artifacts/diff?from=``: the changes between two artifacts of a source.

The answer has names and sizes. It has no content, which may contain secrets, and no digests, which
could confirm a guess of a short secret; users who may read content use ``files``. Two indexes of a
HelmRepository are compared by charts and versions.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from aiohttp import web

from apiserver import encoding, status
from apiserver.artifacts import held as holding
from apiserver.artifacts.catalog import Catalog
from apiserver.artifacts.files import File, Files, require_known
from apiserver.artifacts.held import Held
from apiserver.artifacts.shown import API_VERSION
from apiserver.call import Call
from apiserver.status import StatusError
from crds import HELM_REPOSITORY, misfits
from toolkit.artifact.threads import Checkpoint
from toolkit.errors import TransientError
from toolkit.objects import Json

Charts: TypeAlias = Mapping[str, Mapping[str, str]]
"""Digest by chart and by version."""


class Diff:
    """Compares artifacts of ``catalog``, read by ``files``."""

    def __init__(self, catalog: Catalog, files: Files) -> None:
        self._catalog = catalog
        self._files = files

    async def handle(self, call: Call) -> web.StreamResponse:
        """Answer one request."""
        require_known(call.query, "from")
        after = self._catalog.require(call)
        before = self._before(call, after)
        if after.owner.kind == HELM_REPOSITORY.kind:
            old = await self._files.read(call, before, _charts)
            new = await self._files.read(call, after, _charts)
            what, changed = "charts", charts(old, new)
        else:
            changed = changes(await self._files.of(call, before), await self._files.of(call, after))
            what = "files"
        return await encoding.respond_large(call, lambda: _document(before, after, what, changed))

    def _before(self, call: Call, after: Held) -> Held:
        """Return the artifact to compare with: one of the same source.

        Raises:
            StatusError: it is not named, or there is none, or more than one.
        """
        siblings = self._catalog.siblings(after)
        others = [each for each in siblings if each.name != after.name]
        shown = ", ".join(each.revision or each.name for each in islice(others, _SHOWN))
        there = f"there is {shown}" if shown else "it has no other artifact at the moment"
        wanted = call.query.get("from", "")
        if not wanted:
            raise status.bad_request(
                "say what to compare with: ?from=<revision, digest or name of an artifact of "
                f"the same source>; {there}"
            )
        found = holding.find(siblings, wanted)
        if len(found) > 1:
            names = ", ".join(each.name for each in found)
            raise status.bad_request(f"revision {wanted[:200]!a} is that of {names}: name one")
        if not found:
            owner = after.owner
            raise StatusError(
                404,
                "NotFound",
                f"{owner.kind} '{owner.namespace}/{owner.name}' has no artifact "
                f"{wanted[:200]!a}; {there}",
            )
        return found[0]


def changes(before: Iterable[File], after: Iterable[File]) -> Iterator[Json]:
    """Yield the files that differ, in the order of their paths."""
    old, new = ({file.path: file for file in files} for files in (before, after))
    for path in sorted(old.keys() | new.keys()):
        was, now = old.get(path), new.get(path)
        if was == now:
            continue
        sides = {"before": was, "after": now}
        yield {
            "path": path.encode(errors="backslashreplace").decode(),
            "change": _change(was, now),
            **{name: file.outline() for name, file in sides.items() if file},
        }


def charts(before: Charts, after: Charts) -> Iterator[Json]:
    """Yield the chart versions that differ, by name and version."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, {}), after.get(name, {})
        for version in sorted(old.keys() | new.keys()):
            was, now = old.get(version), new.get(version)
            if was != now:
                yield {"chart": name, "version": version, "change": _change(was, now)}


_SHOWN: Final = 5


def _change(was: object, now: object) -> str:
    if was is None:
        return "Added"
    return "Removed" if now is None else "Modified"


def _document(before: Held, after: Held, what: str, changed: Iterator[Json]) -> Json:
    listed = list(changed)
    counts = {
        counted.lower(): sum(each["change"] == counted for each in listed)
        for counted in ("Added", "Removed", "Modified")
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "ArtifactDiff",
        "metadata": {"name": after.name, "namespace": after.owner.namespace},
        "before": _side(before),
        "after": _side(after),
        **counts,
        what: listed,
    }


def _side(artifact: Held) -> Json:
    return {"name": artifact.name, "revision": artifact.revision, "digest": artifact.digest}


class _Version(msgspec.Struct, frozen=True):
    version: str = ""
    digest: str | None = None


class _Index(msgspec.Struct, frozen=True):
    entries: dict[str, msgspec.Raw] = {}


_INDEX: Final = msgspec.json.Decoder(_Index)
_VERSIONS: Final = msgspec.json.Decoder(list[_Version])
"""Decode chart by chart, because a decoder blocks all threads."""


def _charts(path: Path, checkpoint: Checkpoint) -> Charts:
    """Read an index as ``toolkit.chart.index`` wrote it: JSON, which is YAML too.

    Raises:
        TransientError: the file is not such an index.
    """
    if path.stat().st_size > _LONGEST:
        raise TransientError("the index is too large to be compared")
    found: dict[str, Mapping[str, str]] = {}
    try:
        for name, versions in _INDEX.decode(path.read_bytes()).entries.items():
            checkpoint()
            found[name] = {each.version: each.digest or "" for each in _VERSIONS.decode(versions)}
    except msgspec.MsgspecError as exc:
        raise TransientError(f"it is not an index of charts: {misfits.told(exc)}") from exc
    return found


_LONGEST: Final = 64 << 20
