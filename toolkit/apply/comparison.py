"""Compare two versions of an object field by field. Pure.

Fields that only the server writes, and ``status``, are left out. Values of a Secret are compared
but never shown, and neither is kubectl's copy of one. Long values are cut at the end, so that the
check for secret values sees them whole.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from toolkit.apply import ownership
from toolkit.objects import Json

MASK: Final = "***"
_LONG: Final = 200
_LONG_LINES: Final = 4000
_SERVER_SET: Final = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_KEYS: Final = ("name", "containerPort", "port", "mountPath", "key", "type", "ip")
"""Fields that may identify list items: the first that all items have, with different values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field: added, removed or changed; ``old`` and ``new`` are ready to print."""

    op: Literal["+", "-", "~"]
    path: str
    old: str = ""
    new: str = ""

    def __str__(self) -> str:
        shown = {"+": self.new, "-": self.old, "~": f"{self.old} → {self.new}"}
        return f"{self.op} {self.path}: {shown[self.op]}"


def compare(
    live: Json, wanted: Json, *, secret: Callable[[str], bool] = lambda _: False
) -> tuple[Difference, ...]:
    """Return the differences from ``live`` to ``wanted``.

    ``secret`` gets all values at once, uncut; if it returns true, none of them is shown.
    """
    found = tuple(_compare("", _relevant(live), _relevant(wanted)))
    if found and secret("\n".join(text for one in found for text in (one.old, one.new))):
        return masked(found)
    if ownership.is_secret(wanted) or ownership.is_secret(live):
        found = tuple(_masked(one) if _SECRET.match(one.path) else one for one in found)
    return tuple(replace(one, old=_cut(one.old), new=_cut(one.new)) for one in found)


def masked(differences: Iterable[Difference]) -> tuple[Difference, ...]:
    """Return the differences without any value."""
    return tuple(map(_masked, differences))


def _relevant(obj: Json) -> Json:
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in _SERVER_SET}
    kept = {k: v for k, v in obj.items() if k != "status"}
    return {**kept, "metadata": metadata}


def _compare(path: str, old: Any, new: Any) -> Iterator[Difference]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _compare_items(path, old, new)
        return
    if isinstance(old, list) and isinstance(new, list):
        key = _key_of(old, new)
        if key:
            yield from _compare_items(path, _keyed(old, key), _keyed(new, key))
            return
    yield Difference(op="~", path=path, old=_text(old), new=_text(new))


def _compare_items(
    path: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Difference]:
    for name in dict.fromkeys((*old, *new)):
        step = name if name.startswith("[") else f".{_quoted(name)}"
        where = f"{path}{step}".lstrip(".")
        if name not in new:
            yield Difference(op="-", path=where, old=_text(old[name]))
        elif name not in old:
            yield Difference(op="+", path=where, new=_text(new[name]))
        else:
            yield from _compare(where, old[name], new[name])


def _key_of(old: Sequence[Any], new: Sequence[Any]) -> str:
    items = [*old, *new]
    if not all(isinstance(item, Mapping) for item in items):
        return ""
    return next((key for key in _KEYS if _tells_apart(old, key) and _tells_apart(new, key)), "")


def _tells_apart(items: Sequence[Mapping[str, Any]], key: str) -> bool:
    values = [item.get(key) for item in items]
    return None not in values and len({str(value) for value in values}) == len(values)


def _keyed(items: Sequence[Mapping[str, Any]], key: str) -> dict[str, Any]:
    return {f"[{key}={item[key]}]": item for item in items}


def _quoted(name: str) -> str:
    return f'"{name}"' if "." in name or "/" in name else name


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    """Shorten a value; text of several lines stays readable line by line for longer."""
    longest = _LONG_LINES if "\\n" in text else _LONG
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


def _masked(difference: Difference) -> Difference:
    changed = difference.op == "~"
    return Difference(
        op=difference.op,
        path=difference.path,
        old="" if difference.op == "+" else f"{MASK} (before)" if changed else MASK,
        new="" if difference.op == "-" else f"{MASK} (after)" if changed else MASK,
    )


_SECRET: Final = re.compile(
    r"(data|stringData)(\.|$)|metadata(\.annotations(\."
    + re.escape(f'"{ownership.LAST_APPLIED}"')
    + r")?)?$"
)
"""Fields with values of a Secret: its data, and every field that may have kubectl's copy of it."""
