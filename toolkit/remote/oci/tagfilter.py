"""Patterns that choose among tags: ``spec.ref.semverFilter`` of an OCIRepository.

They are users' and run on RE2, which takes time linear in what it matches. As in Go they match
anywhere unless they are anchored.
"""

import functools
from typing import Any, Final

import re2

MAX_LENGTH: Final = 4096
_MAX_MEMORY: Final = 256 << 10
"""Bytes of a compiled pattern, and so a millisecond to compile it."""


def compiled(text: str) -> Any:
    """Return the compiled pattern, an object of RE2 with ``search``.

    Raises:
        ValueError: it is no pattern; the message tells why.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a pattern of more than {MAX_LENGTH} characters is not accepted")
    try:
        return _compiled(text)
    except re2.error as exc:
        why = exc.args[0].decode() if isinstance(exc.args[0], bytes) else str(exc)
        raise ValueError(f"not a regular expression (RE2): {why}") from exc


@functools.lru_cache(maxsize=256)
def _compiled(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    return re2.compile(text, options)
