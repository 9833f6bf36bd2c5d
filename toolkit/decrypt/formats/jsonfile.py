"""JSON documents, and the JSON envelope of binary files.

Numbers follow SOPS: an integer if it fits into 64 bits, a float otherwise. The binary format is
one JSON object whose key ``data`` holds the whole file.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.tree import (
    MAX_DEPTH,
    MAX_NODES,
    Branch,
    Comment,
    Timestamp,
    Value,
    bytes_of,
    decimal,
    only,
)


def load(data: bytes) -> list[Branch]:
    """Return the only object of ``data``.

    Raises:
        DecryptionError: it is not a JSON object, has a duplicate key, or is too large or too deep.
    """
    # The parser does not yield to other threads, so its cost is bounded before. An encrypted value
    # has four commas, and one follows it.
    if data.count(b",") > 5 * MAX_NODES:
        raise DecryptionError(f"the JSON has more than {MAX_NODES} nodes")
    document, failure = _parse(data)
    if failure:
        raise DecryptionError(failure)
    if not isinstance(document, Branch):
        raise DecryptionError("the JSON document is not an object")
    _require_bounds(document)
    return [document]


def dump(documents: list[Branch]) -> bytes:
    """Write the document as SOPS does: tabs, a final newline, HTML characters escaped.

    Raises:
        DecryptionError: it has an infinite number.
    """
    text = "".join(_written(only(documents), "\n"))
    return (_HTML.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n").encode()


def is_envelope(documents: list[Branch]) -> bool:
    """Tell whether the documents are one binary file in its envelope."""
    keys = [key for document in documents for key, _ in document.items]
    return keys == [_CONTENT]


def dump_binary(documents: list[Branch]) -> bytes:
    """Return the content of ``data``.

    Raises:
        DecryptionError: there is no such text, because the file was not encrypted as binary.
    """
    content = only(documents).get(_CONTENT)
    if not isinstance(content, str):
        raise DecryptionError("the document was not encrypted as a binary file")
    return bytes_of(content)


_CONTENT: Final = "data"
_PLAIN_NUMBERS: Final = (1e-6, 1e21)
_HTML = re.compile("[<>&\u2028\u2029]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def _parse(data: bytes) -> tuple[Any, str]:
    """Return the document, or the problem; the errors of the parsers contain the whole text."""
    try:
        text = data.decode()
        document = json.loads(  # noqa: TID251 - hooks keep order, equal keys and digits
            text,
            object_pairs_hook=_branch,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError:
        return None, "the JSON is not UTF-8"
    except json.JSONDecodeError as exc:
        return None, f"the file is not JSON (line {exc.lineno}, column {exc.colno})"
    except RecursionError:
        return None, "the JSON is nested too deeply"
    return document, ""


def _branch(pairs: list[tuple[str, Any]]) -> Branch:
    items: list[tuple[str | Comment, Value]] = [(_clean(k), _value(v)) for k, v in pairs]
    if len({key for key, _ in items}) != len(items):
        raise DecryptionError("a JSON key occurs twice")
    return Branch(items)


def _integer(digits: str) -> int | float:
    if len(digits) <= 20 and -(2**63) <= int(digits) < 2**63:
        return int(digits)
    return _float(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise DecryptionError("a JSON number is too large")
    return number


def _require_bounds(document: Branch) -> None:
    level: list[Value] = [document]
    nodes = 0
    for _ in range(MAX_DEPTH):
        level = [child for value in level for child in _children(value)]
        nodes += len(level)
    if level or nodes > MAX_NODES:
        raise DecryptionError(f"the JSON has more than {MAX_NODES} nodes or {MAX_DEPTH} levels")


def _children(value: Value) -> list[Value]:
    if isinstance(value, Branch):
        return [child for _, child in value.items]
    return value if isinstance(value, list) else []


def _refuse_constant(name: str) -> NoReturn:
    raise DecryptionError(f"{name} is not JSON")


def _clean(text: str) -> str:
    """Replace unpaired surrogates as Go does; those of our decoder stand for other bytes."""
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


def _value(value: Any) -> Value:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, list):
        return [_value(item) for item in value]
    return value  # type: ignore[no-any-return]  # numbers, booleans, null and finished branches


def _written(value: Value, line: str) -> Iterator[str]:
    """Yield the text of a value; ``line`` is a line break and the indentation around it."""
    match value:
        case Branch():
            members = list(value.entries())
            yield "{" if members else "{}"
            for number, (key, child) in enumerate(members):
                yield f"{',' if number else ''}{line}\t{_quoted(key)}: "
                yield from _written(child, f"{line}\t")
            yield f"{line}}}" if members else ""
        case list():
            items = [item for item in value if not isinstance(item, Comment)]
            yield "[" if items else "[]"
            for number, item in enumerate(items):
                yield f"{',' if number else ''}{line}\t"
                yield from _written(item, f"{line}\t")
            yield f"{line}]" if items else ""
        case float():
            yield _number(value)
        case str() | Timestamp():
            yield _quoted(value if isinstance(value, str) else value.text)
        case _:
            yield json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(_clean(text), ensure_ascii=False)


def _number(number: float) -> str:
    """Spell a float as Go's ``encoding/json``: no exponent from a millionth up to 1e21."""
    if not math.isfinite(number):
        raise DecryptionError("a JSON file cannot hold infinite numbers")
    if not number or _PLAIN_NUMBERS[0] <= abs(number) < _PLAIN_NUMBERS[1]:
        return decimal(number)
    mantissa, _, power = repr(number).partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(power):+d}"
