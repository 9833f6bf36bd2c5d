"""The decrypted YAML as SOPS writes it, with its comments, for readers to whom the text matters.

SOPS has written the encrypted file, and writes the decrypted one in the same layout. So the text
of the encrypted file is kept, its ciphertext is exchanged for what SOPS writes in its place, and
the metadata are cut out. A comment that was beside its value comes before it, as in SOPS.

A file that another program has rearranged is left to ``yamlfile.dump``. The result is always read
again: it must hold the decrypted document and nothing else, whatever the ciphertext held.
"""

import base64
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import yaml

from toolkit import untrusted
from toolkit.decrypt import scalars
from toolkit.decrypt.cipher import looks_encrypted
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.formats import yamlfile
from toolkit.decrypt.metadata import KEY
from toolkit.decrypt.tree import Branch, Comment, Path, Scalar, Timestamp, Value, bytes_of

OpenComment = Callable[[str, Path], str | None]
"""Returns the text of an encrypted comment below a path, None if it is not of this path."""


def rewrite(data: bytes, plain: list[Branch], comment: OpenComment) -> bytes | None:
    """Return the decrypted text of a file; None where it must be written anew.

    ``plain`` are the decrypted documents of the file.
    """
    if len(data) > _LARGEST:
        return None
    try:
        text = _Rewriter(data.decode(), plain, comment).text(data)
        same = _bare(yamlfile.load(text)) == _bare(plain)
    except (_UnfitError, DecryptionError, ValueError, StopIteration):
        return None  # StopIteration: the file and the documents have different parts
    return text if same else None


_LARGEST: Final = 2 << 20
"""Bytes of a file whose text matters: a Secret of 1 MiB, encrypted."""


class _UnfitError(Exception):
    """The file is not laid out as SOPS does it."""


@dataclass(slots=True)
class _Rewriter:
    """Walks over the events and the decrypted tree together, and collects the changes."""

    source: str
    plain: list[Branch]
    comment: OpenComment
    edits: list[tuple[int, int, str]] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    places: list[tuple[int, Path]] = field(default_factory=list)
    left: int = 10_000

    def text(self, data: bytes) -> bytes:
        if "\r" in self.source or "\ufeff" in self.source:
            raise _UnfitError
        events = iter(list(untrusted.events(data, yamlfile.BOUNDS)))
        documents = iter(self.plain)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                first = next(events)
                if not isinstance(first, yaml.MappingStartEvent):
                    raise _UnfitError
                self._mapping(first, next(documents), (), events)
        self._comments()
        return self._applied().encode()

    def _mapping(self, start: Any, plain: Value, path: Path, events: Iterator[Any]) -> None:
        if not isinstance(plain, Branch):
            raise _UnfitError
        entries = plain.entries()
        while not isinstance(key := next(events), yaml.MappingEndEvent):
            self._note(key, path)
            if not path and key.value == KEY:
                self._cut(key, next(events), events, alone=not any(plain.entries()))
                continue
            name, value = next(entries)
            event = next(events)
            column = key.start_mark.column
            beside = event.start_mark.line == key.end_mark.line and not start.flow_style
            self._value(event, value, (*path, name), events, 4 * (column // 4 + 1), beside=beside)

    def _sequence(self, start: Any, plain: Value, path: Path, events: Iterator[Any]) -> None:
        if not isinstance(plain, list):
            raise _UnfitError
        items = iter(plain)
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            at = event.start_mark.index
            beside = self.source[at - 2 : at] == "- " and not start.flow_style
            item = next(items)
            self.places.append((at, path))
            if isinstance(item, Comment):
                self._comment_item(event, item, beside=beside)
            else:
                self._value(event, item, path, events, event.start_mark.column, beside=beside)

    def _value(  # noqa: PLR0913 - an event, its value, and where it is
        self,
        event: Any,
        plain: Value,
        path: Path,
        events: Iterator[Any],
        column: int,
        *,
        beside: bool,
    ) -> None:
        if isinstance(event, yaml.MappingStartEvent):
            self._mapping(event, plain, path, events)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._sequence(event, plain, path, events)
        else:
            self._note(event, path[:-1])
            if not looks_encrypted(event.value) or plain == event.value:
                return
            if not beside or isinstance(plain, Branch | list):
                raise _UnfitError
            written = written_scalar(plain, column)
            self.edits.append((event.start_mark.index, event.end_mark.index, written))

    def _note(self, event: Any, path: Path) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        if not isinstance(event, yaml.ScalarEvent):
            raise _UnfitError
        self.spans.append((start, end))
        self.places.append((start, path))

    def _comment_item(self, event: Any, item: Comment, *, beside: bool) -> None:
        """Exchange an item of a list, as which SOPS encrypts a comment, for a line."""
        start, end = event.start_mark.index, event.end_mark.index
        line = self.source.rfind("\n", 0, start) + 1
        if not beside or self.source[line : start - 2].strip(" "):
            raise _UnfitError
        self.spans.append((start, end))
        self.edits.append((start - 2, end, f"#{item.text}"))

    def _cut(self, key: Any, value: Any, events: Iterator[Any], *, alone: bool) -> None:
        depth, last = 0, value
        while True:
            depth += isinstance(last, yaml.CollectionStartEvent)
            depth -= isinstance(last, yaml.CollectionEndEvent)
            if not depth:
                break
            last = next(events)
        start, end = key.start_mark.index - key.start_mark.column, last.end_mark.index
        if key.start_mark.column or (end < len(self.source) and self.source[end - 1] != "\n"):
            end = self.source.find("\n", end) + 1 or len(self.source)
        self.spans.append((start, end))
        self.edits.append((start, end, "{}\n" if alone else ""))

    def _comments(self) -> None:
        """Open the encrypted comments; those beside a value move before its line."""
        self.spans.sort()
        self.places.sort()
        inside, place = 0, 0
        for match in _COMMENT.finditer(self.source):
            at = match.start()
            while inside < len(self.spans) and self.spans[inside][1] <= at:
                inside += 1
            while place < len(self.places) and self.places[place][0] <= at:
                place += 1
            if inside < len(self.spans) and self.spans[inside][0] <= at:
                continue
            near = [path for _, path in self.places[max(0, place - 1) : place + 1]]
            if (opened := self._opened(match[1], near)) is not None:
                self._placed(match, opened)

    def _opened(self, text: str, near: list[Path]) -> str | None:
        """Return the plaintext; a comment belongs to a mapping or list around it."""
        paths = dict.fromkeys(path[:depth] for path in near for depth in range(len(path), -1, -1))
        for path in paths:
            self.left -= 1
            if self.left < 0:
                raise _UnfitError
            if (found := self.comment(text, path)) is not None:
                return found
        return None

    def _placed(self, match: re.Match[str], opened: str) -> None:
        line = self.source.rfind("\n", 0, match.start()) + 1
        before = self.source[line : match.start()]
        if not before.strip(" "):
            self.edits.append((match.start(), match.end(), f"#{opened}"))
            return
        indent = before[: len(before) - len(before.lstrip(" "))]
        self.edits.append((line, line, f"{indent}#{opened}\n"))
        self.edits.append((line + len(before.rstrip(" ")), match.end(), ""))

    def _applied(self) -> str:
        parts: list[str] = []
        done = 0
        for start, end, new in sorted(self.edits, key=lambda edit: edit[:2]):
            if start < done:
                raise _UnfitError
            parts += (self.source[done:start], new)
            done = end
        return "".join((*parts, self.source[done:]))


_COMMENT: Final = re.compile(
    r"#(ENC\[AES256_GCM,[A-Za-z0-9+/=,:_-]{1,65536}+\])(?= *$)", re.MULTILINE
)
"""An encrypted comment. It contains no ``#``, so no text is read twice."""


def _bare(value: Any) -> Any:
    """Return a value without its comments, so that equal ones are those of equal documents."""
    match value:
        case Branch():
            return Branch([(key, _bare(child)) for key, child in value.entries()])
        case list():
            return [_bare(item) for item in value if not isinstance(item, Comment)]
        case bool():
            return "bool", value
        case float() if math.isnan(value):
            return "nan"
        case _:
            return value


def written_scalar(value: Scalar, column: int) -> str:
    """Return a scalar as yaml.v3 writes it; the lines of a block begin at ``column``."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return _float(value)
        case int():
            return str(value)
        case Timestamp():
            return value.text
        case str():
            return _string(value, column)
        case _:
            raise _UnfitError


def _string(text: str, column: int) -> str:
    if _PLAIN.fullmatch(text) and text not in _OLD:
        return text if isinstance(_resolved(text), str) else f'"{text}"'
    if text == "<<":
        return "!!merge <<"
    if _BYTES.search(text):
        return f"!!binary {base64.b64encode(bytes_of(text)).decode()}"
    style = "|" if "\n" in text else '"' if _is_quoted(text) else None
    event = yaml.ScalarEvent(None, None, (True, True), text, style=style)
    written: str = yaml.emit(
        (*_BEFORE, event, *_AFTER), Dumper=yaml.CDumper, allow_unicode=True, width=1 << 30, indent=4
    )
    head, *lines = written.removeprefix("k: ").rpartition("\nz: z\n")[0].split("\n")
    return "\n".join((head, *(" " * column + line[4:] if line else "" for line in lines)))


_BYTES: Final = re.compile("[\ud800-\udfff]")
"""Bytes that are not UTF-8 (``tree.text_of``)."""
_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_BEFORE: Final = (
    yaml.StreamStartEvent(),
    yaml.DocumentStartEvent(explicit=False),
    yaml.MappingStartEvent(None, None, implicit=True, flow_style=False),
    yaml.ScalarEvent(None, None, (True, True), "k"),
)
_AFTER: Final = (
    yaml.ScalarEvent(None, None, (True, True), "z"),
    yaml.ScalarEvent(None, None, (True, True), "z"),
    yaml.MappingEndEvent(),
    yaml.DocumentEndEvent(explicit=False),
    yaml.StreamEndEvent(),
)
_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_OLD: Final = frozenset(
    word
    for name in ("y", "yes", "on", "n", "no", "off")
    for word in (name, name.capitalize(), name.upper())
)
"""Booleans of YAML 1.1, which yaml.v3 quotes."""


def _is_quoted(text: str) -> bool:
    """Tell whether another reader would take the text for something else."""
    return text in _OLD or bool(_BASE_60.fullmatch(text)) or not isinstance(_resolved(text), str)


def _resolved(text: str) -> Scalar:
    if text in {"", "<<"}:
        return None
    try:
        return scalars.resolve(text)
    except DecryptionError:
        return None  # a number of 64 bits without a sign


def _float(number: float) -> str:
    """Return a float as Go's ``FormatFloat(f, 'g', -1, 64)`` has it."""
    if math.isnan(number):
        return ".nan"
    if math.isinf(number):
        return ".inf" if number > 0 else "-.inf"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    power = len(digits) + int(exponent) - 1
    if not number or -4 <= power < 6:
        text = format(Decimal(repr(number)), "f")
        return text.removesuffix(".0")
    shown = "".join(map(str, digits))
    point = f"{shown[0]}.{shown[1:]}" if len(shown) > 1 else shown
    return f"{'-' * sign}{point}e{'-' if power < 0 else '+'}{abs(power):02}"
