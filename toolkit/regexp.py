"""Regular expressions of users: RE2, whose time is linear in the length of the searched text.

As in Go, a pattern matches anywhere unless it is anchored. The length of a pattern, its groups and
the size of its program are bounded.
"""

import functools
from typing import Any, Final

import re2

LONGEST: Final = 4096
MOST: Final = 256
"""Patterns in one list of an object; the compiled ones of a few objects are kept."""
MOST_GROUPS: Final = 64
"""Capturing groups of a pattern: RE2 copies all of them for each instruction at each character."""
MOST_INSTRUCTIONS: Final = 65_536
"""Of the patterns in the lists of an object, which take some 100 ms to compile at worst."""
_STEPS: Final = 1 << 19
"""Characters of a text times instructions of a pattern: at worst a step takes 10 ns."""
_MAX_MEMORY: Final = 256 << 10
"""Bytes of a compiled pattern, and so a millisecond to compile it."""


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """Return the compiled pattern, an object of RE2 with ``search`` and ``fullmatch``.

    Raises:
        ValueError: it is not a pattern; the message tells why.
    """
    if len(pattern) > LONGEST:
        raise ValueError(f"a pattern of more than {LONGEST} characters is not accepted")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        made = re2.compile(pattern, options=options)
    except re2.error as exc:
        why = exc.args[0].decode() if isinstance(exc.args[0], bytes) else str(exc)
        raise ValueError(f"not a regular expression (RE2): {why}") from exc
    if made.groups > MOST_GROUPS:
        raise ValueError(
            f"a pattern with more than {MOST_GROUPS} groups is not accepted: write '(?:…)' for"
            " groups whose text is not used"
        )
    return made


def found(pattern: str, text: str) -> bool:
    """Tell whether a pattern matches somewhere in a text, in at most some milliseconds.

    Where RE2 cannot make an automaton of a pattern, each of its instructions takes time at each
    character. So the end of a long text is left out for large patterns. A pattern of usual size is
    searched for in 10,000 characters.

    Raises:
        ValueError: it is not a pattern; the message tells why.
    """
    made = compiled(pattern)
    return made.search(text[: max(1, _STEPS // made.programsize)]) is not None


def size(pattern: str) -> int:
    """Return how many instructions a pattern compiles to.

    Raises:
        ValueError: see ``compiled``.
    """
    return int(compiled(pattern).programsize)


def fits(pattern: str, text: str) -> bool:
    """Tell whether a pattern matches the whole text; an invalid pattern matches nothing."""
    try:
        return compiled(pattern).fullmatch(text) is not None
    except ValueError:
        return False
