"""``spec.ref``: what of it can be read, and what of it has an effect."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol, TypeVar

from toolkit.remote import semver
from webhooks.validation.rule import Fault, Find, Rule, WithSpec, read

T = TypeVar("T")


class _Reference(Protocol):
    @property
    def semver(self) -> str: ...


class _Referring(Protocol):
    @property
    def ref(self) -> _Reference | None: ...


def given(ref: _Reference | None, order: Sequence[str]) -> list[str]:
    """Return which of these fields are set."""
    return [name for name in order if getattr(ref, name, "")]


def overruled(names: Sequence[str]) -> Iterator[Fault]:
    """Yield a fault for every field but the first, which wins."""
    for name in names[1:]:
        yield Fault(f"spec.ref.{name}", f"it has no effect beside spec.ref.{names[0]}")


def unused(find: Find[T], *names: str) -> Rule[T]:
    """Return the rule about fields over which others win."""
    return Rule(
        name="reference-unused",
        fields=tuple(f"spec.ref.{name}" for name in names),
        demands="no other field of spec.ref wins over it",
        remedy="remove all but one",
        find=find,
        refuses=False,
    )


def _range(obj: WithSpec[_Referring]) -> Iterator[Fault]:
    if obj.spec.ref:
        yield from read("spec.ref.semver", obj.spec.ref.semver, semver.Range.parse)


RANGE: Final[Rule[WithSpec[_Referring]]] = Rule(
    name="semver-range",
    fields=("spec.ref.semver",),
    demands="it is a range of versions",
    remedy="write it as '>=1.2.0 <2.0.0', '1.x' or '~1.4'",
    find=_range,
)
