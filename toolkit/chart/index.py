"""Convert a repository's index.yaml to the compact JSON that is stored as its artifact.

An index may have 50 MiB, and needs ten times as much memory as objects. So it is read as a stream
of events, one version of one chart at a time, and written at once: memory is bounded by the
versions of one chart. Blocks for seconds: for a worker (``toolkit.chart.worker``).

Helm's own reader takes 1.3 GiB for such an index (ADR 35).

The output depends only on the content of the index: charts sorted by name, versions in descending
order, keys sorted, no time of generation. As in Helm, invalid entries are left out, and an index
with duplicate keys is refused. Aliases, which no tool writes there, are refused too. Helm refuses a
whole index if one field has another type or is unknown; here only the entry is left out, or
nothing.
"""

import hashlib
import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, TypeAlias

import msgspec
import yaml
from yaml.events import (
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from crds import misfits
from toolkit.chart import limits, version
from toolkit.chart.errors import IndexationError

Entry: TypeAlias = dict[str, Any]
Charts: TypeAlias = Iterator[tuple[str, Iterator[Entry]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The result of a conversion; ``skipped`` is the number of invalid entries."""

    digest: str
    size: int
    charts: int
    versions: int
    skipped: int


def normalize(source: Path, into: Path) -> Summary:
    """Read the index at ``source`` and write it to ``into`` as JSON.

    Raises:
        IndexationError: it is not an index, too large, or without a single valid version.
    """
    size = source.stat().st_size
    if size > limits.INDEX_BYTES:
        raise IndexationError(f"the index is larger than {limits.INDEX_BYTES >> 20} MiB")
    with source.open("rb") as file:
        if not size:
            raise IndexationError("the index is empty")
        try:
            return _write(_read(file), into)
        except yaml.MarkedYAMLError as exc:
            raise IndexationError(f"the index is not YAML: {_where(exc)}") from exc
        except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as exc:
            raise IndexationError(f"the index cannot be read: {_brief(exc)}") from exc


def _write(charts: Charts, into: Path) -> Summary:
    """Write each chart to one file as it is read, then copy them sorted by name to the other."""
    places: dict[str, tuple[int, int]] = {}
    versions = skipped = 0
    unsorted = into.with_name(f"{into.name}.unsorted")
    with unsorted.open("w+b") as file:
        for name, entries in charts:
            if name in places:
                raise IndexationError(f"the index has the chart '{name[:100]}' twice")
            if len(places) >= limits.INDEX_CHARTS:
                raise IndexationError(f"the index has more than {limits.INDEX_CHARTS} charts")
            seen, lines = _lines(name, entries, versions + skipped)
            versions += len(lines)
            skipped += seen - len(lines)
            if lines:
                places[name] = _append(file, name, lines)
        if not places:
            raise IndexationError("the index has no valid version of any chart")
        digest, size = _ordered(file, places, into)
    unsorted.unlink()
    return Summary(digest=digest, size=size, charts=len(places), versions=versions, skipped=skipped)


def _lines(name: str, entries: Iterator[Entry], before: int) -> tuple[int, list[bytes]]:
    """Return the number of entries, and the valid ones as JSON in descending order."""
    seen = 0
    found: list[tuple[Any, str, str, bytes]] = []
    for entry in entries:
        seen += 1
        if before + seen > limits.INDEX_VERSIONS or seen > limits.CHART_VERSIONS:
            raise IndexationError(
                f"the index has more than {limits.INDEX_VERSIONS} versions, "
                f"or more than {limits.CHART_VERSIONS} of one chart"
            )
        checked = _checked(name, entry)
        if checked is not None:
            text = checked["version"]
            created = str(checked.get("created") or "")
            found.append((version.parse(text), created, text, _ENCODER.encode(checked)))
    found.sort(key=lambda item: item[:3], reverse=True)
    return seen, [line for *_, line in found]


def _checked(name: str, entry: Entry) -> Entry | None:
    """Return the fields of an entry that Helm knows; None if it is invalid (Helm: ``Validate``)."""
    kept = {key: value for key, value in entry.items() if key in _FIELDS and value is not None}
    number, urls = kept.get("version"), kept.get("urls")
    if kept.get("name") != name or PurePosixPath(name).name != name or name == "..":
        return None
    if not isinstance(urls, list) or not urls or not all(isinstance(u, str) and u for u in urls):
        return None
    if kept.get("type", "") not in ("", "application", "library"):
        return None
    try:
        version.parse(number if isinstance(number, str) else "")
    except ValueError:
        return None
    return {"apiVersion": "v1"} | kept


_FIELDS: Final = frozenset(
    (
        *("name", "version", "apiVersion", "appVersion", "description", "type", "kubeVersion"),
        *("home", "icon", "keywords", "sources", "maintainers", "annotations", "deprecated"),
        *("condition", "tags", "dependencies", "engine", "tillerVersion"),
        *("urls", "created", "digest", "removed"),
    )
)
_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_CHUNK: Final = 1 << 20


def _append(file: IO[bytes], name: str, lines: list[bytes]) -> tuple[int, int]:
    start = file.tell()
    file.write(_ENCODER.encode(name) + b":[")
    for number, line in enumerate(lines):
        if len(line) > limits.ENTRY_BYTES:
            raise IndexationError(f"an entry of the chart '{name[:100]}' is larger than 1 MiB")
        file.write((b"," if number else b"") + line)
    file.write(b"]")
    return start, file.tell() - start


def _ordered(file: IO[bytes], places: dict[str, tuple[int, int]], into: Path) -> tuple[str, int]:
    digest = hashlib.sha256()
    file.flush()
    with into.open("wb") as out, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as written:

        def put(data: bytes) -> None:
            digest.update(data)
            out.write(data)

        put(b'{"apiVersion":"v1","entries":{')
        for number, name in enumerate(sorted(places)):
            start, size = places[name]
            put(b"," if number else b"")
            for at in range(start, start + size, _CHUNK):
                put(written[at : min(at + _CHUNK, start + size)])
        put(b"}}\n")
        return f"sha256:{digest.hexdigest()}", out.tell()


def _read(file: IO[bytes]) -> Charts:
    """Return the charts of an index in JSON or YAML."""
    first = file.read(1 << 10).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    file.seek(0)
    if first == b"{" and (charts := _json(file)) is not None:
        return charts
    return _Events(file).charts()


class _JsonIndex(msgspec.Struct):
    apiVersion: str = ""  # noqa: N815  # the index's own name
    entries: dict[str, list[msgspec.Raw] | None] | None = None


def _json(file: IO[bytes]) -> Charts | None:
    """Return the charts of an index in JSON, which are decoded only when they are needed."""
    written = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        index = msgspec.json.decode(written, type=_JsonIndex)
    except msgspec.ValidationError as exc:
        raise IndexationError(f"the index is malformed: {misfits.told(exc)}") from exc
    except msgspec.DecodeError:
        return None
    if not index.apiVersion:
        raise IndexationError("the index has no apiVersion")
    entries = index.entries or {}
    return ((name, _json_entries(versions or ())) for name, versions in entries.items())


def _json_entries(versions: list[msgspec.Raw] | tuple[()]) -> Iterator[Entry]:
    for raw in versions:
        entry = msgspec.json.decode(raw)
        yield entry if isinstance(entry, dict) else {}


class _Events:
    """Reads an index in YAML, at most one version of a chart at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._next: Callable[[], Any] = yaml.CSafeLoader(file).get_event  # noqa: TID251 - a stream, in a worker

    def charts(self) -> Charts:
        event = self._next()
        while type(event) is not DocumentStartEvent:
            if type(event) is StreamEndEvent:
                raise IndexationError("the index is empty")
            event = self._next()
        self._expect(self._next(), MappingStartEvent, "a mapping")
        seen: set[str] = set()
        for key, event in self._pairs(seen):
            if key == "entries":
                yield from self._entries(event)
            elif key == "apiVersion" and type(event) is ScalarEvent and not _is_null(event):
                seen.add("an apiVersion")
            else:
                self._skip(event)
        if "an apiVersion" not in seen:
            raise IndexationError("the index has no apiVersion")

    def _entries(self, event: Any) -> Charts:
        if _is_null(event):
            return
        self._expect(event, MappingStartEvent, "a mapping of charts")
        for name, versions in self._pairs(set()):
            if not _is_null(versions):
                self._expect(versions, SequenceStartEvent, "a list of versions")
                yield name, self._versions()

    def _versions(self) -> Iterator[Entry]:
        while type(event := self._next()) is not SequenceEndEvent:
            if type(event) is MappingStartEvent:
                yield self._mapping(event, 0)
            else:
                self._skip(event)
                yield {}

    def _pairs(self, seen: set[str]) -> Iterator[tuple[str, Any]]:
        """Yield each key with the first event of its value, which the caller must consume."""
        while type(event := self._next()) is not MappingEndEvent:
            self._expect(event, ScalarEvent, "a plain key")
            key = event.value
            if key in seen:
                raise _refused(event, f"'{key[:100]}' occurs twice")
            seen.add(key)
            yield key, self._next()

    def _value(self, event: Any, depth: int) -> Any:
        """Return a value as it is written: all that counts here is text, apart from a few words."""
        kind = type(event)
        if kind is ScalarEvent:
            if event.anchor is not None:
                raise _refused(event, "anchors and aliases are not for an index")
            return None if _is_null(event) else event.value
        if kind is MappingStartEvent:
            return self._mapping(event, depth)
        if kind is SequenceStartEvent:
            _guard(event, depth)
            items = []
            while type(item := self._next()) is not SequenceEndEvent:
                items.append(self._value(item, depth + 1))
            return items
        raise _refused(event, "anchors and aliases are not for an index")

    def _mapping(self, event: Any, depth: int) -> Entry:
        _guard(event, depth)
        result: Entry = {}
        following = self._next
        while type(event := following()) is not MappingEndEvent:
            if type(event) is not ScalarEvent:
                raise _refused(event, "there should be a plain key")
            key = event.value
            if key in result:
                raise _refused(event, f"'{key[:100]}' occurs twice")
            value = self._value(following(), depth + 1)
            result[key] = _switch(value) if key in _SWITCHES else value
        return result

    def _skip(self, event: Any) -> None:
        """Pass over a value, within a limit: the parser's time grows with the square of depth."""
        depth = 0
        while True:
            kind = type(event)
            if kind in (MappingStartEvent, SequenceStartEvent):
                depth += 1
                if depth > _SKIPPED_DEPTH:
                    raise _refused(event, f"it nests deeper than {_SKIPPED_DEPTH} levels")
            elif kind in (MappingEndEvent, SequenceEndEvent):
                depth -= 1
            if depth == 0:
                return
            event = self._next()

    def _expect(self, event: Any, kind: type, what: str) -> None:
        if type(event) is not kind:
            raise _refused(event, f"there should be {what}")
        _guard(event, 0)


_DEPTH: Final = 16
_SKIPPED_DEPTH: Final = 100
_SWITCHES: Final = frozenset({"deprecated", "removed", "enabled"})


_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})


def _guard(event: Any, depth: int) -> None:
    if event.anchor is not None:
        raise _refused(event, "anchors and aliases are not for an index")
    if depth > _DEPTH:
        raise _refused(event, f"it nests deeper than {_DEPTH} levels")


def _is_null(event: Any) -> bool:
    return bool(type(event) is ScalarEvent and event.implicit[0] and event.value in _NULL)


def _switch(value: Any) -> Any:
    return value in ("true", "True", "TRUE", "yes", "on") if isinstance(value, str) else None


def _refused(event: Any, why: str) -> IndexationError:
    return IndexationError(f"the index is malformed: line {event.start_mark.line + 1}: {why}")


def _where(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f"line {mark.line + 1}: {error.problem}" if mark else str(error.problem)


def _brief(error: Exception) -> str:
    return "it nests too deep" if isinstance(error, RecursionError) else str(error)[:200]
