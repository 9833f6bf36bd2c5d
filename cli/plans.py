"""A plan as people read it: one line per object, one per field that would change."""

from collections.abc import Iterator
from typing import Final

from cli import differences
from cli.terminal import printable
from toolkit.objects import Json

_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~"}


def lines(plan: Json) -> Iterator[str]:
    """Yield the lines for an answer of the subresources ``diff`` and ``plan`` of an inventory."""
    for change in plan.get("changes") or ():
        place = "/".join(part for part in (change.get("namespace"), change["name"]) if part)
        yield f"► {change['kind']}/{place} {change['action']}"
        if change.get("message"):
            yield printable(f"  {change['message']}")
        for field in change.get("differences") or ():
            sign, path = _SIGNS[field["action"]], str(field["path"])
            values = str(field.get("before") or ""), str(field.get("after") or "")
            yield from (f"  {line}" for line in differences.lines(sign, path, *values))
    for hook in plan.get("hooks") or ():
        events = ", ".join(hook["events"])
        yield f"► {hook['kind']}/{hook['name']} is a hook ({events}): it would run, and has not"
