"""Durations that make sense, alone and together.

The schema, which is Flux's, allows every duration. One that is too short is admitted with a
warning, and counts as the shortest that controllers use (``crds.meta``).
"""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final, Protocol

from crds import meta
from webhooks.validation.rule import Fault, Rule, WithSpec, when

SHORT_SECONDS: Final = 10.0
TOO_LONG: Final = "it is longer than 292 years"

_DEFAULT_TIMEOUT: Final = 60.0
"""The default of sources in the API; users who did not choose it get no warning."""


class _Timed(Protocol):
    @property
    def interval(self) -> str: ...


_ATTRIBUTES: Final = MappingProxyType(
    {"interval": "interval", "timeout": "timeout", "retryInterval": "retry_interval"}
)


def _given(obj: WithSpec[_Timed], *fields: str) -> dict[str, float]:
    """Return the seconds of those of the fields that are set and can be read."""
    found = {}
    for field in fields:
        try:
            found[field] = meta.parse_duration(getattr(obj.spec, _ATTRIBUTES[field], ""))
        except ValueError:
            continue
    return found


def too_long(text: str) -> bool:
    """Tell whether no Go program can hold the duration; other texts are for the schema to judge."""
    try:
        return bool(text) and meta.parse_duration(text) >= meta.LONGEST
    except ValueError:
        return False


def _long(obj: WithSpec[_Timed]) -> Iterator[Fault]:
    for field, seconds in _given(obj, *_ATTRIBUTES).items():
        yield from when(seconds >= meta.LONGEST, f"spec.{field}", TOO_LONG)


def short(field: str, text: str) -> Iterator[Fault]:
    """Yield a fault for an interval that is too short."""
    try:
        seconds = meta.parse_duration(text)
    except ValueError:
        return
    floor = "" if seconds >= meta.SHORTEST_INTERVAL else "; it counts as 1 s"
    why = f"less than 10 s is work without end{floor}"
    yield from when(seconds < SHORT_SECONDS, field, why, text)


def brief(field: str, text: str) -> Iterator[Fault]:
    """Yield a fault for a timeout in which nothing can be done."""
    try:
        seconds = meta.parse_duration(text)
    except ValueError:
        return
    yield from when(0 < seconds < meta.SHORTEST_TIMEOUT, field, "it counts as 100 ms", text)


def _short(obj: WithSpec[_Timed]) -> Iterator[Fault]:
    for field in ("interval", "retryInterval"):
        yield from short(f"spec.{field}", getattr(obj.spec, _ATTRIBUTES[field], ""))


def _brief(obj: WithSpec[_Timed]) -> Iterator[Fault]:
    yield from brief("spec.timeout", getattr(obj.spec, "timeout", ""))


def _zero(obj: WithSpec[_Timed]) -> Iterator[Fault]:
    none = _given(obj, "timeout").get("timeout") == 0
    yield from when(none, "spec.timeout", "nothing is done in no time")


def _exceeds(obj: WithSpec[_Timed]) -> Iterator[Fault]:
    given = _given(obj, "timeout", "interval")
    timeout, interval = given.get("timeout", 0), given.get("interval", 0)
    chosen = timeout != _DEFAULT_TIMEOUT
    yield from when(
        chosen and 0 < interval < timeout, "spec.timeout", "it is longer than spec.interval"
    )


_BRIEF: Final = Rule(
    name="timeout-short",
    fields=("spec.timeout",),
    demands="it is 100 ms or more",
    remedy="leave it out, or write some seconds",
    find=_brief,
    refuses=False,
)
_ZERO: Final = Rule(
    name="timeout-zero",
    fields=("spec.timeout",),
    demands="it is more than nothing",
    remedy="leave it out, or write some seconds",
    find=_zero,
)
_EXCEEDS: Final = Rule(
    name="timeout-over-interval",
    fields=("spec.timeout", "spec.interval"),
    demands="an attempt ends before the next one is due",
    remedy="write a timeout below the interval",
    find=_exceeds,
    refuses=False,
)


def rules(*fields: str) -> tuple[Rule[WithSpec[_Timed]], ...]:
    """Return the rules for a kind that has these durations in its spec."""
    long = Rule(
        name="duration-range",
        fields=tuple(f"spec.{field}" for field in fields),
        demands="it is a duration that Go programs can hold",
        remedy="write at most 2562047h",
        find=_long,
    )
    intervals = tuple(f"spec.{field}" for field in fields if field != "timeout")
    frequent = Rule(
        name="interval-short",
        fields=intervals,
        demands="it is 10 s or more",
        remedy="write a minute or more",
        find=_short,
        refuses=False,
    )
    often = (frequent,) if intervals else ()
    return (long, *often, _ZERO, _BRIEF, _EXCEEDS) if "timeout" in fields else (long, *often)


def of_builds(*fields: str) -> tuple[Rule[WithSpec[_Timed]], ...]:
    """Return the rules for a kind whose timeout has a longer minimum, with a rule of its own."""
    return tuple(rule for rule in rules(*fields) if rule is not _BRIEF)


def of_actions(*fields: str) -> tuple[Rule[WithSpec[_Timed]], ...]:
    """Return the rules for a kind whose timeout is for single actions."""
    return tuple(rule for rule in rules(*fields) if rule is not _EXCEEDS)
