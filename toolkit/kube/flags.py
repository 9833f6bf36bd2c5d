"""A flag as a field: a dataclass of settings is also the table of its flags.

So the name and the default of a flag are in one place. A parser of a value raises
``ArgumentTypeError`` with a message for the user.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, TypeVar

from crds.meta import parse_duration

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. The default is written as on the command line."""

    name: str
    type: Callable[[str], Any]
    default: str
    help: str


def flag(type_: Callable[[str], T], default: str, help_: str) -> T:
    """Return a field whose flag has the same name, with hyphens."""
    metadata = {"type": type_, "default": default, "help": help_}
    return field(default_factory=lambda: type_(default), metadata=metadata)


def of(options: type) -> tuple[Flag, ...]:
    """Return the flags of a dataclass, in the order of its fields."""
    return tuple(
        Flag(name=each.name.replace("_", "-"), **each.metadata) for each in fields(options)
    )


def bool_(text: str) -> bool:
    """Read a boolean as Go does."""
    values = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
    try:
        return values[text.lower()]
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false") from None


def duration(text: str) -> float:
    """Read a duration of Go; return seconds."""
    try:
        return parse_duration(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


def bytes_(text: str) -> int:
    """Read a quantity of bytes, such as ``500Mi``."""
    number = text.rstrip("KMGTi")
    unit = _UNITS.get(text.removeprefix(number))
    if unit is None or not number.isascii() or not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: give one as 500Mi or 2Gi")
    return int(number) * unit


_UNITS: Final = MappingProxyType(
    {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
)


def names(text: str) -> tuple[str, ...]:
    """Read a list with commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def gates(text: str) -> Mapping[str, bool]:
    """Read ``Gate=true,…``."""
    pairs = (pair.partition("=") for pair in names(text))
    return {name: bool_(value or "true") for name, _, value in pairs}
