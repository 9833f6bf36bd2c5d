"""Plugins that the API server asks with one request: one webhook, several decisions.

A review costs both sides about as much to send as to decide: the object is encoded, often a
connection is made, and the answer is read. So plugins that judge the same writes share a webhook
(``Row.webhook``). Each of them decides about every request that comes; the first denial, in the
order of the table, is the answer.

No plugin is asked less often than alone. The rules are those of all, and the condition holds where
those of any plugin do: it is built from theirs. A plugin gets requests that its own rules do not
name, and must have nothing to say about them.

This module makes what the API server is told. How a request is answered is in ``server``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from webhooks.plugin import Condition, Row

SPECS: Final = "specs"
"""The webhook of the plugins that judge what writes to Penstock's kinds bring."""
_EITHER: Final = "concerns-a-plugin"


def asked(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield a row for each webhook, in the order of the first plugin of each.

    A plugin that shares a webhook with none of the others has its own.

    Raises:
        ValueError: plugins share a webhook and differ in what only a webhook as a whole can have.
    """
    for name, members in _members(rows).items():
        yield members[0] if len(members) == 1 else _joint(name, members)


def _members(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.webhook or row.name, []).append(row)
    return found


def _joint(name: str, members: Sequence[Row]) -> Row:
    first = members[0]
    for each in members:
        if _selecting(each) != _selecting(first):
            raise ValueError(f"plugins '{first.name}' and '{each.name}' cannot share '{name}'")
    return replace(
        first,
        name=name,
        rules=tuple(rule for each in members for rule in each.rules),
        conditions=_either(members),
        fail_open=all(each.fail_open for each in members),
        timeout=max(each.timeout for each in members),
    )


def _selecting(row: Row) -> tuple[object, ...]:
    """Return by what else a webhook chooses requests; one that mutates has an order of its own."""
    if row.mutating or row.needed:
        return (row.name,)
    return (row.object_selector, row.namespace_selector, row.everywhere, row.to_the_end)


def _either(members: Iterable[Row]) -> tuple[Condition, ...]:
    """Return a condition that holds where all conditions of one plugin do; none if one has none."""
    sets = dict.fromkeys(frozenset(each.conditions) for each in members)
    # Where fewer conditions hold is the rest contained.
    least = [each for each in sets if not any(other < each for other in sets)]
    if frozenset() in least:
        return ()
    ways = [" && ".join(f"({each.expression})" for each in _ordered(way)) for way in least]
    return (Condition(name=_EITHER, expression=" || ".join(f"({way})" for way in ways)),)


def _ordered(conditions: Iterable[Condition]) -> list[Condition]:
    return sorted(conditions, key=lambda each: each.name)
