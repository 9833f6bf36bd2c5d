"""Rules for regular expressions."""

from typing import Final

from toolkit import regexp

DEMANDS: Final = f"it is a regular expression of RE2, of at most {regexp.LONGEST} characters"
REMEDY: Final = "see github.com/google/re2/wiki/Syntax: lookaround and backreferences do not exist"


def problem(pattern: str) -> str:
    """Return why a pattern is invalid; empty if it is valid."""
    try:
        regexp.compiled(pattern)
    except ValueError as exc:
        return str(exc)
    return ""
