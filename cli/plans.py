"""A plan as people read it: one line per object, one per field that would change."""

from collections.abc import Iterator
from typing import Final

from toolkit.objects import Json

_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~"}


def lines(plan: Json) -> Iterator[str]:
    """Yield what the subresources ``diff`` and ``plan`` of an inventory tell."""
    for change in plan.get("changes") or ():
        place = "/".join(part for part in (change.get("namespace"), change["name"]) if part)
        yield f"► {change['kind']}/{place} {change['action']}"
        if change.get("message"):
            yield f"  {change['message']}"
        for field in change.get("differences") or ():
            shown = [value for value in (field.get("before"), field.get("after")) if value]
            yield f"  {_SIGNS[field['action']]} {field['path']}: {' → '.join(shown)}"
    for hook in plan.get("hooks") or ():
        events = ", ".join(hook["events"])
        yield f"► {hook['kind']}/{hook['name']} is a hook ({events}): it would run, and has not"
