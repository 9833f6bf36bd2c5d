"""Remove secret values from the messages of a failed reconciliation.

The API server quotes a value that it refuses, and kustomize quotes a text that it cannot parse.
``toolkit.apply.masking`` masks Secrets where they are applied. This module is for other objects
that contain decrypted values, or values of Secrets that variables inserted. The values are only
collected after a failure, so a successful reconciliation has no cost and keeps none of them.
"""

import asyncio
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from toolkit.objects import Json, ref_of

MASK: Final = "***"
_SHORTEST: Final = 3
"""Shorter values are not masked: they are hardly secret, and occur in any message."""

_WORD: Final = 6
"""Shorter values are masked only as whole words."""

_TOKEN: Final = re.compile(r"[^\s\"'`,:=\[\]{}()]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """The secret values of a build, which ``text`` masks.

    - ``clear`` are the objects with decrypted values.
    - ``encrypted`` are the same objects before decryption, if they could be built. Values in both
      are not secret.
    - ``values`` are secret in any place. Variables insert them as text of YAML, so a message may
      show a part.
    """

    clear: tuple[Json, ...] = field(default=(), repr=False)
    encrypted: tuple[Json, ...] = field(default=(), repr=False)
    values: frozenset[str] = field(default=frozenset(), repr=False)

    async def masked(self, message: str) -> str:
        """Return the message with every secret value masked.

        This happens in a thread: 64 Secrets may have millions of values.
        """
        return await asyncio.to_thread(self.text, message)

    def text(self, message: str) -> str:
        """Return the same; this may block for long."""
        return hide(message, self.secrets())

    def secrets(self) -> frozenset[str]:
        """Return every secret value; this walks through all objects, so it may block for long."""
        known = set(scalars(self.encrypted)) | set(_names(self.clear))
        inserted = {part for value in self.values for part in _inserted(value)}
        return frozenset((set(scalars(self.clear)) - known) | inserted)


def hide(message: str, values: Collection[str]) -> str:
    """Mask the values in a message, the longest first; also in the form of a JSON string."""
    forms = {value for value in values if len(value) >= _SHORTEST and value not in _LITERALS}
    forms |= {json.dumps(value, ensure_ascii=False)[1:-1] for value in forms}
    # There may be millions of values. Most are excluded by how they begin and end.
    pieces = {message[at : at + _SHORTEST] for at in range(len(message))}
    present = [
        value
        for value in forms
        if value[:_SHORTEST] in pieces and value[-_SHORTEST:] in pieces and value in message
    ]
    for value in sorted(present, key=len, reverse=True):
        pattern = re.escape(value)
        message = re.sub(
            pattern if len(value) >= _WORD else rf"(?<!\w){pattern}(?!\w)", MASK, message
        )
    return message


def words(clear: Iterable[bytes], encrypted: Iterable[bytes]) -> frozenset[str]:
    """Return the words that are in the decrypted files, but not in the encrypted ones."""
    return frozenset(_words(clear) - _words(encrypted))


def _inserted(value: str) -> Iterator[str]:
    """Yield a value, and its words if YAML does not read it as one plain text.

    A value may begin an alias, a tag or a quoted text, hold a comment, or be a mapping or list.
    """
    yield value
    if _STRUCTURED.search(value):
        yield from (word.lstrip("*&!") for word in _TOKEN.findall(value))


_STRUCTURED: Final = re.compile(r"^\s*[*&!{\[\"'|>%@`#?-]|:(?:\s|$)|\s#")
_LITERALS: Final = frozenset({"true", "false", "null"})


def _words(files: Iterable[bytes]) -> set[str]:
    return {word for file in files for word in _TOKEN.findall(file.decode(errors="replace"))}


def _names(objects: Iterable[Json]) -> Iterator[str]:
    """Yield kinds and names of objects, which messages must show even if they were encrypted."""
    for obj in objects:
        ref = ref_of(obj)
        yield from (ref.gvk.group, ref.gvk.version, ref.gvk.kind, ref.gvk.api_version)
        yield from (ref.namespace, ref.name)


def scalars(objects: Iterable[Json]) -> Iterator[str]:
    """Yield every value as messages show it; no recursion, because objects may be deep."""
    stack: list[Any] = list(objects)
    while stack:
        value = stack.pop()
        if isinstance(value, Mapping):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
        elif isinstance(value, str):
            yield value
            yield from (line.strip() for line in value.splitlines())
        elif value is not None and not isinstance(value, bool):
            yield str(value)
