"""Rules for regular expressions."""

from typing import Final

from toolkit import regexp

DEMANDS: Final = f"it is a regular expression of RE2, of at most {regexp.LONGEST} characters"
REMEDY: Final = "see github.com/google/re2/wiki/Syntax: lookaround and backreferences do not exist"

TOO_LARGE: Final = (
    f"with the patterns before it, it compiles to more than {regexp.MOST_INSTRUCTIONS} instructions"
)
"""Why one does not do that could be used alone."""


def problem(pattern: str) -> str:
    """Return why a pattern is invalid; empty if it is valid."""
    try:
        regexp.compiled(pattern)
    except ValueError as exc:
        return str(exc)
    return ""
