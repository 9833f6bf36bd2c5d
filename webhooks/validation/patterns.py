"""Regular expressions: RE2, which takes linear time whatever the pattern."""

import functools
from typing import Final

import re2

LONGEST: Final = 4096
DEMANDS: Final = f"it is a regular expression of RE2, of at most {LONGEST} characters"
REMEDY: Final = "see github.com/google/re2/wiki/Syntax: lookaround and backreferences do not exist"
_MAX_MEMORY: Final = 256 << 10
"""Bytes of a compiled pattern, and so a millisecond to compile it."""


@functools.lru_cache(maxsize=1024)
def problem(pattern: str) -> str:
    """Return why a pattern cannot be used, nothing if it can."""
    if len(pattern) > LONGEST:
        return f"a pattern of more than {LONGEST} characters is not accepted"
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        re2.compile(pattern, options=options)
    except re2.error as exc:
        why = exc.args[0].decode() if isinstance(exc.args[0], bytes) else str(exc)
        return f"not a regular expression (RE2): {why}"
    return ""
