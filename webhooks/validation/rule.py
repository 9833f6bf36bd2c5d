"""The types of rules: demands on fields, and functions that find faults.

A rule refuses only specs that no reconciler could ever carry out, whatever else changes. Specs that
work but are probably mistakes get a warning. Rules are pure and fast, and parse fields with the
same code as reconcilers.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from crds.kind import Kind
from toolkit.errors import PenstockError
from toolkit.expressions.evaluator import Evaluates
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

LONGEST_VALUE: Final = 100


@dataclass(frozen=True, slots=True)
class Fault:
    """One place where a rule does not hold; ``value`` stays out where it could be secret."""

    field: str
    why: str
    value: str = ""

    @property
    def shown(self) -> str:
        """Return the field, its value in bounds unless the reason quotes it, and the reason."""
        value = ascii(self.value[:LONGEST_VALUE])[1:-1]
        dots = "…" if len(self.value) > LONGEST_VALUE else ""
        quoted = f" '{value}{dots}'" if value and value not in self.why else ""
        return f"{self.field}{quoted}: {self.why}"


Find = Callable[[T_contra], Iterator[Fault]]


class WithSpec(Protocol[T_co]):
    """An object of any kind whose spec has the fields of a rule."""

    @property
    def spec(self) -> T_co:
        """Return the spec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[T_contra]):
    """One row of ``docs/validation.md``.

    ``demands`` completes "it must hold that", ``remedy`` is part of every fault. ``fields`` are
    paths with ``[]`` for elements of lists. With ``refuses`` false a fault is a warning.
    """

    name: str
    fields: tuple[str, ...]
    demands: str
    remedy: str
    find: Find[T_contra]
    refuses: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A field with the name of an object.

    ``path`` leads to a string, or to an object with a ``name`` and perhaps a ``kind`` and a
    ``namespace``. ``kind`` is that of the named object if the field has none; it may be empty.
    ``data_key`` is a further field of the reference, for a key in the data of a Secret or
    ConfigMap, with the default key.
    """

    path: str
    kind: str = ""
    data_key: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judges:
    """What judges texts that only the engine can parse, in workers."""

    engine: WorkerPool
    evaluates: Evaluates


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A rule about texts that only the engine can parse.

    ``find`` gets an object's JSON, whose values may have wrong types, which is reported elsewhere.
    An object without such texts causes no work.
    """

    rule: Rule[Any]
    find: Callable[[Judges, Json], Awaitable[Sequence[Fault]]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checks(Generic[T]):
    """All rules for a kind, in its stored version.

    ``names``, ``namespaces``, ``patterns`` and ``selectors`` are fields with the same form in every
    kind (``shapes``): names of objects and of namespaces, regular expressions, label selectors.
    ``circle`` is the rule that objects of the kind must not wait for each other. ``judged`` are
    rules for the engine; they are also in ``rules``, for the documentation.
    """

    kind: Kind[Struct]
    rules: tuple[Rule[T], ...]
    names: tuple[Named, ...] = ()
    namespaces: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    selectors: tuple[str, ...] = ()
    circle: Rule[Json] | None = None
    judged: tuple[Judged, ...] = ()


def annotation(name: str) -> str:
    """Return the path of an annotation, as a field of a rule."""
    return f"metadata.annotations[{name}]"


def read(
    field: str, value: str, parse: Callable[[str], object], *, shown: str | None = None
) -> Iterator[Fault]:
    """Yield a fault if a field that is set cannot be read; ``shown`` replaces the value."""
    if not value:
        return
    try:
        parse(value)
    except (ValueError, PenstockError) as exc:
        yield Fault(field, str(exc), value if shown is None else shown)


def when(condition: object, field: str, why: str, value: str = "") -> Iterator[Fault]:
    """Yield a fault if the condition is true."""
    if condition:
        yield Fault(field, why, value)


def few(field: str, given: Sequence[object], most: int) -> Iterator[Fault]:
    """Yield a fault if a list has more references than that."""
    yield from when(len(given) > most, field, f"it has {len(given)}, which is more than {most}")
