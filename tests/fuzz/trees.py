"""JSON and YAML that is nearly what a reader takes: other types, keys, numbers and texts in it.

A document is a value, or the value of a sample in which a few places have another value. Writers
make text of it, also such that their libraries would not: with duplicate keys, anchors and tags.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import yaml
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

Value = Any
"""What JSON can hold. A ``Raw`` is written as it is; a list of pairs may have a key twice."""


class Raw(str):
    """Text that stands in a document without quotes."""

    __slots__ = ()


class Pairs(list[tuple[str, Value]]):
    """A mapping, whose keys may occur twice."""

    __slots__ = ()


_WORDS: Final = (
    *("", "a", "1", "-1", "0x1F", "0o17", "1_000", "1e3", ".inf", ".nan", "~", "null", "yes"),
    *("2026-01-01", "2026-01-01T00:00:00Z", "12:30:45", "1m", "1.0.0", "=", "<<", "*", "&", "!a"),
    *("\u0000", "\u2028", "\ufeff", "\U0001f600", "\u0663", "a\r\nb", "a: b", "- a", "{{.A}}"),
    *(
        "${a}",
        "../../a",
        "/etc/passwd",
        "https://a@b:c/d",
        "9" * 400,
        "a" * 300,
        "ENC[a]",
        "{",
        "[",
    ),
)
_NUMBERS: Final = (
    *("0", "-0", "1", "-1", "1.5", "1e400", "-1e400", "1e-400", "9" * 30, "9223372036854775808"),
    *("18446744073709551616", "2147483648", "1E5", "1." + "0" * 100, "9" * 5_000),
)
_INVALID: Final = (
    "NaN",
    "Infinity",
    "01",
    "+1",
    ".5",
    "1.",
    "'a'",
    "a",
    "0x1",
    "undefined",
    '"\\x"',
)
_SCALARS: Final[SearchStrategy[Value]] = st.one_of(
    st.sampled_from((None, True, False, Raw("{}"), Raw("[]"))),
    st.sampled_from(_WORDS),
    st.sampled_from(_NUMBERS).map(Raw),
    st.text(max_size=12),
    st.integers(),
)


def _nested(value: Value, levels: int, in_lists: bool) -> Value:  # noqa: FBT001 - drawn
    """Return a text: a value of this depth would exhaust the stack of the writer."""
    if levels <= 40:
        for _ in range(levels):
            value = [value] if in_lists else Pairs([("a", value)])
        return value
    opening, closing = ("[", "]") if in_lists else ('{"a":', "}")
    return Raw(opening * levels + "1" + closing * levels)


VALUES: Final[SearchStrategy[Value]] = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(st.tuples(st.sampled_from(_WORDS), inner), max_size=4).map(Pairs),
        st.builds(_nested, inner, st.sampled_from((20, 40, 200, 2_000)), st.booleans()),
    ),
    max_leaves=8,
)


def mutated(values: Sequence[Value]) -> SearchStrategy[Value]:
    """Return these with another value, one more or one less in a few places."""
    return _mutated(tuple(values))


@st.composite
def _mutated(draw: DrawFn, values: tuple[Value, ...]) -> Value:
    value = _paired(draw(st.sampled_from(values)))
    for _ in range(draw(st.integers(1, 4))):
        value = _changed(draw, value)
    return value


def _paired(value: Value) -> Value:
    if isinstance(value, dict):
        return Pairs((str(key), _paired(inner)) for key, inner in value.items())
    return [_paired(inner) for inner in value] if isinstance(value, list) else value


def _changed(draw: DrawFn, value: Value) -> Value:
    """Change one place, which is the deeper the more often a container is entered."""
    if not isinstance(value, list) or not value or draw(st.integers(0, 3)) == 3:
        return draw(VALUES)
    at = draw(st.integers(0, len(value) - 1))
    act = draw(st.integers(0, 9))
    if isinstance(value, Pairs):
        key, inner = value[at]
        one = ((key, _changed(draw, inner)),)
        other = ((draw(st.sampled_from(_WORDS)), inner),)
        put = {9: (), 8: (value[at], *one), 7: other}.get(act, one)
        return Pairs((*value[:at], *put, *value[at + 1 :]))
    changed = (_changed(draw, value[at]),)
    several = draw(st.sampled_from((2, 70, 300)))
    items = {9: (), 8: (value[at],) * several}.get(act, changed)
    return [*value[:at], *items, *value[at + 1 :]]


def to_json(value: Value, *, ascii_only: bool = True) -> str:
    """Write JSON, with keys that occur twice."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Pairs):
        return (
            "{"
            + ", ".join(
                f"{json.dumps(key)}: {to_json(inner, ascii_only=ascii_only)}"
                for key, inner in value
            )
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(to_json(inner, ascii_only=ascii_only) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=ascii_only, default=str)


_ODD: Final = ("&a ", "*a ", "!!binary ", "!!set ", "!a ", "! ", "? ", "# ", "\n", "\t", "%", "'")


def to_yaml(draw: DrawFn, value: Value, indent: str = "\n") -> str:
    """Write YAML in flow and block style, in part with properties and plain scalars."""
    odd = draw(st.sampled_from(_ODD)) if draw(st.integers(0, 19)) == 19 else ""
    if not isinstance(value, list) or not value or len(indent) > 20:
        plain = isinstance(value, str) and draw(st.booleans())
        return odd + (str(value) if plain else to_json(value))
    if draw(st.booleans()):
        return odd + to_json(value, ascii_only=draw(st.booleans()))
    deeper = indent + "  "
    if isinstance(value, Pairs):
        lines = [
            f"{key if draw(st.booleans()) else json.dumps(key)}: {to_yaml(draw, inner, deeper)}"
            for key, inner in value
        ]
    else:
        lines = [f"- {to_yaml(draw, inner, deeper)}" for inner in value]
    return odd + indent + indent.join(lines)


def texts(samples: Sequence[bytes]) -> list[SearchStrategy[bytes]]:
    """Return documents like those samples that are JSON, and like those that are YAML."""
    found: list[SearchStrategy[bytes]] = []
    as_json = [value for value in map(_json, samples) if isinstance(value, dict | list)]
    if as_json:
        found.append(_written(mutated(as_json), in_yaml=False))
    as_yaml = [
        value
        for sample, value in ((sample, _yaml(sample)) for sample in samples)
        if isinstance(value, dict | list) and _json(sample) is None
    ]
    if as_yaml:
        found.append(_written(mutated(as_yaml), in_yaml=True))
    return found


def _json(sample: bytes) -> Value:
    try:
        return json.loads(sample)
    except (ValueError, RecursionError):
        return None


def _yaml(sample: bytes) -> Value:
    try:
        return yaml.safe_load(sample)
    except (yaml.YAMLError, ValueError):
        return None


@st.composite
def _written(draw: DrawFn, values: SearchStrategy[Value], *, in_yaml: bool) -> bytes:
    value = draw(values)
    if draw(st.integers(0, 19)) == 19:
        value = [Raw(draw(st.sampled_from(_INVALID))), value]
    text = to_yaml(draw, value) if in_yaml else to_json(value, ascii_only=draw(st.booleans()))
    before, after = draw(st.sampled_from(_FRAMES))
    return (before + text + after).encode("utf-8", "surrogatepass")


_FRAMES: Final = (
    *(("", ""),) * 6,
    *(("\ufeff", ""), ("---\n", "\n...\n---\na"), ("", "\n\x00"), (" " * 99, "\r\n"), ("", "{}")),
    *(("%YAML 1.2\n---\n", ""), ("", "\n# a")),
)
