"""Patterns of policies: RE2, which takes linear time whatever somebody writes."""

import functools
from typing import Any

import re2


def fits(pattern: str, text: str) -> bool:
    """Tell whether a pattern matches the whole text; one that is malformed matches none."""
    try:
        return _compiled(pattern).fullmatch(text) is not None
    except re2.error:
        return False


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options=options)
