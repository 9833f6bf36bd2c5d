"""Plugins that share a webhook: one request of the API server, several decisions.

Sending a review costs about as much as the decision: the object is encoded, often a connection is
opened, and the answer is parsed. So plugins that judge the same writes share a webhook
(``Row.webhook``). Each of them decides about every request; the answer is the first denial, in the
order of the table.

No plugin is called less often than with its own webhook. The rules are the union of all, and the
condition holds if the conditions of any plugin hold. A plugin also gets requests that its own rules
do not name, and must allow them.

This module makes the configuration. ``server`` answers the requests.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from webhooks.plugin import Condition, Row

SPECS: Final = "specs"
"""The webhook of plugins that judge changes of specs of Penstock's kinds."""
_EITHER: Final = "concerns-a-plugin"


def asked(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield a row for each webhook, in the order of its first plugin.

    A plugin that shares no webhook has its own.

    Raises:
        ValueError: plugins share a webhook and differ in a setting of the whole webhook.
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
    """Return the settings by which a webhook selects requests; order matters if it mutates."""
    if row.mutating or row.needed:
        return (row.name,)
    return (row.object_selector, row.namespace_selector, row.everywhere, row.to_the_end)


def _either(members: Iterable[Row]) -> tuple[Condition, ...]:
    """Return a condition that holds where all conditions of one plugin do; none if one has none."""
    sets = dict.fromkeys(frozenset(each.conditions) for each in members)
    # A set of conditions is redundant if another one is a subset of it.
    least = [each for each in sets if not any(other < each for other in sets)]
    if frozenset() in least:
        return ()
    ways = [" && ".join(f"({each.expression})" for each in _ordered(way)) for way in least]
    return (Condition(name=_EITHER, expression=" || ".join(f"({way})" for way in ways)),)


def _ordered(conditions: Iterable[Condition]) -> list[Condition]:
    return sorted(conditions, key=lambda each: each.name)
