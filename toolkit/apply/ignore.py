"""Fields that are left to other writers: ``spec.ignore``.

A manifest sets such a field only when the object is created. Afterwards the field is not sent if
another manager owns it. If only we own it, the live value is sent, because leaving out the field
would delete it. A field that the live object does not have is not created again.

Paths are JSON pointers (RFC 6901) into the manifest; the item of a keyed list (a container, a
port) is found on the live object by its key, wherever it is in the list.

Pure functions; the caller reads the live object.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from toolkit import errors
from toolkit.apply import fields
from toolkit.apply.selector import Selector
from toolkit.objects import Json

_IDENTITY: Final = frozenset(
    {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")}
)
_MISSING: Final = object()

MOST_RULES: Final = 100
MOST_PATHS: Final = 1_000
"""Limit for all rules together, because each is checked for each object."""
MOST_INSTRUCTIONS: Final = 8_192
"""Limit for the patterns in all targets, which are matched with each object: 20 ms at worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRule:
    """JSON pointers, and the objects that they are for."""

    paths: tuple[str, ...]
    target: Selector = field(default_factory=Selector)


def pointers(obj: Json, rules: Iterable[IgnoreRule]) -> tuple[tuple[str, ...], ...]:
    """Return the fields of this object that are left to others, as tokens of pointers.

    Raises:
        StalledError: a pointer is invalid, or names a field that identifies the object.
    """
    found = {
        parse_pointer(path) for rule in rules if rule.target.matches(obj) for path in rule.paths
    }
    return tuple(sorted(found))


def require_few(rules: Sequence[IgnoreRule]) -> None:
    """Require that there are not too many rules and paths.

    Raises:
        StalledError: there are too many, or their patterns are too large.
    """
    for what, count, most in (
        ("rules", len(rules), MOST_RULES),
        ("paths", sum(len(rule.paths) for rule in rules), MOST_PATHS),
    ):
        if count > most:
            raise errors.StalledError(
                f"there are {count} {what} of fields to ignore, more than {most}: join them"
            )
    size = 0
    for rule in rules:
        size += rule.target.size
        if size > MOST_INSTRUCTIONS:  # large ones take long to compile, too
            raise errors.StalledError(
                "the patterns in targets of fields to ignore compile to more than "
                f"{MOST_INSTRUCTIONS} instructions: write them without counts such as '{{500}}', "
                "or fewer"
            )


def parse_pointer(path: str) -> tuple[str, ...]:
    """Return the tokens of a JSON pointer to a field that may be ignored.

    Raises:
        StalledError: the pointer is invalid, or names a field that identifies the object.
    """
    tokens = tuple(_unescaped(path))
    if not path.startswith("/") or tokens in _IDENTITY:
        raise errors.StalledError(f"field {path!r} cannot be ignored: not a JSON pointer to one")
    return tokens


def reduce(payload: Json, live: Json, *, manager: str, ignored: Iterable[tuple[str, ...]]) -> Json:
    """Return the payload with those fields left out, or as they are live."""
    reduced = copy.deepcopy(payload)
    others = [
        entry.get("fieldsV1") or {}
        for entry in fields.entries(live)
        if (entry.get("manager"), entry.get("operation")) != (manager, fields.APPLY)
        or entry.get("subresource")
    ]
    keyed = fields.union([entry.get("fieldsV1") or {} for entry in fields.entries(live)])
    # From the back, because removing an item moves the items after it.
    for tokens in sorted(ignored, key=_numeric, reverse=True):
        _settle(reduced, live, tokens, others=others, keyed=keyed)
    return reduced


def _settle(
    payload: Json,
    live: Json,
    tokens: tuple[str, ...],
    *,
    others: Sequence[Mapping[str, Any]],
    keyed: Mapping[str, Any],
) -> None:
    """Remove or adopt the field at ``tokens``; do nothing if the payload does not have it."""
    *upper, last = tokens
    parent: Any = payload
    live_parent: Any = live
    steps: list[str | fields.Item] = []
    node: Mapping[str, Any] = keyed
    for token in upper:
        step = _step(parent, token)
        live_parent = _counterpart(live_parent, step, node)
        parent = _child(parent, token)
        node = node.get(_key(step, node) or "", {})
        steps.append(step)
    if _child(parent, last) is _MISSING:
        return
    step = _step(parent, last)
    value = _counterpart(live_parent, step, node)
    index: Any = int(last) if isinstance(parent, list) else last
    if value is _MISSING or any(fields.owns(tree, [*steps, step]) for tree in others):
        del parent[index]
    else:
        parent[index] = copy.deepcopy(value)


def _step(parent: Any, token: str) -> "str | fields.Item":
    return fields.Item(_child(parent, token)) if isinstance(parent, list) else token


def _child(parent: Any, token: str) -> Any:
    if isinstance(parent, dict):
        return parent.get(token, _MISSING)
    if isinstance(parent, list) and token.isdecimal() and int(token) < len(parent):
        return parent[int(token)]
    return _MISSING


def _key(step: "str | fields.Item", node: Mapping[str, Any]) -> str | None:
    return step.key_in(node) if isinstance(step, fields.Item) else f"f:{step}"


def _counterpart(live_parent: Any, step: "str | fields.Item", node: Mapping[str, Any]) -> Any:
    """Return the value at the same step on the live object."""
    if isinstance(step, str):
        return live_parent.get(step, _MISSING) if isinstance(live_parent, dict) else _MISSING
    key = step.key_in(node)
    items = live_parent if isinstance(live_parent, list) else []
    return next((item for item in items if key and fields.Item(item).named(key)), _MISSING)


def _unescaped(path: str) -> Iterator[str]:
    for token in path.split("/")[1:]:
        yield token.replace("~1", "/").replace("~0", "~")


def _numeric(tokens: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    return tuple((int(t) if t.isdecimal() else -1, t) for t in tokens)
