"""Readers with faults that the fuzzer has to find; see ``test_fuzzer.py``."""

import json
import os
from typing import Final

from tests.fuzz import languages
from tests.fuzz.reader import Row, texts

_SAMPLE: Final = '{"kind": "a", "spec": {"interval": "1m", "names": ["b"]}}'


def _mistyped(data: bytes) -> object:
    """Take for granted that a field has the type that it has in samples."""
    return json.loads(data)["spec"]["interval"].strip()


def _crashing(data: bytes) -> object:
    if data.count(b"(?") > 1:
        os.abort()
    return None


def _slow(data: bytes) -> object:
    """Take time that grows exponentially with the number of escapes."""
    return sum(1 for _ in range(1 << min(40, 4 * data.count(b"%"))))


def _greedy(data: bytes) -> object:
    return [bytes(64 << 20) for _ in range(data.count(b"["))]


_EXPECTED: Final = (ValueError, KeyError, IndexError, TypeError, RecursionError)

ROWS: Final = (
    Row(name="mistyped", parse=_mistyped, samples=texts(_SAMPLE), refuses=_EXPECTED, examples=300),
    Row(name="crashing", parse=_crashing, samples=texts("a"), shape=languages.PATTERN),
    Row(name="slow", parse=_slow, samples=texts("a"), shape=languages.URL, seconds=0.3),
    Row(name="greedy", parse=_greedy, samples=texts("a"), shape=languages.GLOB),
    Row(
        name="sound", parse=json.loads, samples=texts(_SAMPLE), refuses=(ValueError, RecursionError)
    ),
)
