"""Secret values are taken out of what a failed pass tells.

The API server quotes the value that it refuses, kustomize the text that it cannot read. Secrets
are masked where they are applied (``toolkit.apply.masking``); here it is about any other object
that holds what was decrypted, or what a variable of a Secret put there. Which values those are is
found out when something fails, so a pass that goes well pays nothing and remembers nothing.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from toolkit.objects import Json, ref_of

MASK: Final = "***"
_SHORTEST: Final = 3
"""Shorter values are not looked for: hardly a secret, and part of any message."""

_WORD: Final = 6
"""Values shorter than this are looked for as whole words."""

_TOKEN: Final = re.compile(r"[^\s\"'`,:=\[\]{}()]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What a build held in clear; ``text`` hides it.

    ``clear`` are objects with decrypted values, ``encrypted`` the same ones before, as far as they
    could be built. ``values`` are secret wherever they stand.
    """

    clear: tuple[Json, ...] = field(default=(), repr=False)
    encrypted: tuple[Json, ...] = field(default=(), repr=False)
    values: frozenset[str] = field(default=frozenset(), repr=False)

    def text(self, message: str) -> str:
        """Return the message with every secret value replaced."""
        return hide(message, self.secrets())

    def secrets(self) -> frozenset[str]:
        """Return every secret value. It takes a walk through all objects."""
        known = set(scalars(self.encrypted)) | set(_names(self.clear))
        return frozenset((set(scalars(self.clear)) - known) | self.values)


def hide(message: str, values: Collection[str]) -> str:
    """Replace the values, the longest first, also as they look when they are quoted."""
    forms = {value for value in values if len(value) >= _SHORTEST and value not in _LITERALS}
    forms |= {json.dumps(value, ensure_ascii=False)[1:-1] for value in forms}
    # the event loop waits meanwhile, and there may be hundreds of thousands of values
    present = [value for value in forms if value in message]
    for value in sorted(present, key=len, reverse=True):
        pattern = re.escape(value)
        message = re.sub(
            pattern if len(value) >= _WORD else rf"(?<!\w){pattern}(?!\w)", MASK, message
        )
    return message


def words(clear: Iterable[bytes], encrypted: Iterable[bytes]) -> frozenset[str]:
    """Return the words of decrypted files that their ciphertext does not show."""
    return frozenset(_words(clear) - _words(encrypted))


_LITERALS: Final = frozenset({"true", "false", "null"})


def _words(files: Iterable[bytes]) -> set[str]:
    return {word for file in files for word in _TOKEN.findall(file.decode(errors="replace"))}


def _names(objects: Iterable[Json]) -> Iterator[str]:
    """Yield what a message must name, even where it was encrypted."""
    for obj in objects:
        ref = ref_of(obj)
        yield from (ref.gvk.group, ref.gvk.version, ref.gvk.kind, ref.gvk.api_version)
        yield from (ref.namespace, ref.name)


def scalars(objects: Iterable[Json]) -> Iterator[str]:
    """Yield every value as a message shows it, without recursion: objects may be deep."""
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
