"""Durations that make sense, alone and together."""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final, Protocol

from crds import meta
from webhooks.validation.rule import Fault, Rule, WithSpec, when

SHORT_SECONDS: Final = 10.0
_LONGEST_SECONDS: Final = 2**63 / 1e9
"""Go counts durations in nanoseconds, in 64 bits; Flux's own tools could not read a longer one."""

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
        return bool(text) and meta.parse_duration(text) >= _LONGEST_SECONDS
    except ValueError:
        return False


def _long(obj: WithSpec[_Timed]) -> Iterator[Fault]:
    for field, seconds in _given(obj, *_ATTRIBUTES).items():
        yield from when(seconds >= _LONGEST_SECONDS, f"spec.{field}", TOO_LONG)


def _short(obj: WithSpec[_Timed]) -> Iterator[Fault]:
    seconds = _given(obj, "interval").get("interval", SHORT_SECONDS)
    short = seconds < SHORT_SECONDS
    yield from when(short, "spec.interval", "less than 10 s is work without end", obj.spec.interval)


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


_SHORT: Final = Rule(
    name="interval-short",
    fields=("spec.interval",),
    demands="it is 10 s or more",
    remedy="write a minute or more",
    find=_short,
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
    return (long, _SHORT, _ZERO, _EXCEEDS) if "timeout" in fields else (long, _SHORT)


def of_actions(*fields: str) -> tuple[Rule[WithSpec[_Timed]], ...]:
    """Return the rules for a kind whose timeout is for single actions."""
    return tuple(rule for rule in rules(*fields) if rule is not _EXCEEDS)
