"""A place of an object whose value is written differently in an old version.

Both directions are told, and need not be exact opposites of each other: where the way back does not
lead to the same value, ``crds.conversion`` keeps the original beside the result. All other fields
are the same in every version (``crds.versions``), so a kind lists here only what reads differently.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from enum import Enum
from functools import partial
from typing import Any, Final


class Absent(Enum):
    """No value at all, which is another thing than null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""What a direction returns for a value that the other version cannot hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """``up`` leads from the old version to the stored one, ``down`` back.

    Both get whatever JSON value is there, also one that no schema allows, and never raise; what
    they do not understand they return as it is. They never change their argument.
    """

    path: tuple[str, ...]
    up: Callable[[Any], Any]
    down: Callable[[Any], Any]


def duration(*path: str, hours: bool = True) -> Change:
    """Return the change of a duration that had no pattern: any Go duration was taken.

    Without ``hours`` the stored version has ``meta.ShortDuration``, else ``meta.Duration``.
    """
    return Change(path=path, up=partial(_written, hours=hours), down=_same)


def revision_up(value: Any) -> Any:
    """Return the revision as ``name@algorithm:hash``, or ``algorithm:hash`` without a name.

    The rule is Flux's ``TransformLegacyRevision`` (RFC-0005): the length of the hash tells its
    algorithm, and a name of HEAD is none.
    """
    if not isinstance(value, str) or ":" in value:
        return value
    name, slash, text = value.rpartition("/")
    algorithm = _ALGORITHMS.get(len(text))
    if algorithm is None or not _HEX.fullmatch(text) or (slash and not name):
        return value
    return f"{algorithm}:{text}" if name in {"", "HEAD"} else f"{name}@{algorithm}:{text}"


def revision_down(value: Any) -> Any:
    """Return the revision as it was before RFC-0005; only Git's had a name or HEAD before it."""
    found = _REVISION.fullmatch(value) if isinstance(value, str) else None
    if found is None or _ALGORITHMS.get(len(found["hash"])) != found["algorithm"]:
        return value
    if found["name"]:
        return f"{found['name']}/{found['hash']}"
    return f"HEAD/{found['hash']}" if found["algorithm"] == "sha1" else found["hash"]


_ALGORITHMS: Final = {40: "sha1", 64: "sha256", 96: "sha384", 128: "sha512"}
_HEX: Final = re.compile(r"[0-9a-f]+")
_REVISION: Final = re.compile(
    r"(?:(?P<name>[^@:]+)@)?(?P<algorithm>sha[0-9]+):(?P<hash>[0-9a-f]+)", re.DOTALL
)

_WITH_HOURS: Final = re.compile(r"([0-9]+(\.[0-9]+)?(ms|s|m|h))+")
_WITHOUT_HOURS: Final = re.compile(r"([0-9]+(\.[0-9]+)?(ms|s|m))+")
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_MILLIS: Final = {
    "ns": Decimal("1e-6"),
    "us": Decimal("1e-3"),
    "µs": Decimal("1e-3"),
    "μs": Decimal("1e-3"),
    "ms": Decimal(1),
    "s": Decimal(1000),
    "m": Decimal(60_000),
    "h": Decimal(3_600_000),
}
_LONGEST: Final = 128
"""Characters; a longer text is not a duration that anybody wrote, and is left as it is."""


def _same(value: Any) -> Any:
    return value


def _written(value: Any, *, hours: bool) -> Any:
    """Return the duration in the units that the stored version takes."""
    admitted = _WITH_HOURS if hours else _WITHOUT_HOURS
    if not isinstance(value, str) or len(value) > _LONGEST or admitted.fullmatch(value):
        return value
    if value == "0":
        return "0s"
    with localcontext(prec=4 * _LONGEST):
        total, at = Decimal(0), 0
        while part := _PART.match(value, at):
            total += Decimal(part[1]) * _MILLIS[part[2]]
            at = part.end()
        return _in_units(total) if value and at == len(value) else value


def _in_units(millis: Decimal) -> str:
    for unit, size in (("m", 60_000), ("s", 1000)):
        if millis and millis % size == 0:
            return f"{(millis / size).normalize():f}{unit}"
    return f"{millis.normalize():f}ms"
