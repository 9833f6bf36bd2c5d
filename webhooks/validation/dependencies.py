"""Rules for ``spec.dependsOn`` that need only the object itself."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from crds import meta
from toolkit.policy import counts
from webhooks.validation.rule import Fault, Rule, WithSpec, few, when


class _Dependency(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def ready_expr(self) -> str: ...


class _Waiting(Protocol):
    @property
    def depends_on(self) -> Sequence[_Dependency]: ...


class _Object(WithSpec[_Waiting], Protocol):
    @property
    def metadata(self) -> meta.ObjectMeta: ...
    @property
    def kind(self) -> str: ...


Key = tuple[str, str, str]


def rules(kind: str) -> tuple[Rule[_Object], ...]:
    """Return the rules for objects of a kind."""
    return (
        Rule(
            name="depends-on-itself",
            fields=(_FIELD,),
            demands=f"it names another {kind}",
            remedy="remove it",
            find=_itself,
        ),
        Rule(
            name="depends-on-twice",
            fields=(_FIELD,),
            demands="each object is named once",
            remedy="remove one of them",
            find=_repeated,
            refuses=False,
        ),
        Rule(
            name="depends-on-many",
            fields=("spec.dependsOn",),
            demands=f"it has at most {counts.DEPENDENCIES} entries",
            remedy="wait for one object that waits for the others",
            find=lambda obj: few("spec.dependsOn", obj.spec.depends_on, counts.DEPENDENCIES),
        ),
    )


_FIELD: Final = "spec.dependsOn[]"


def _key(obj: _Object, other: _Dependency) -> Key:
    """Return the kind, namespace and name of a reference."""
    return other.kind, other.namespace or obj.metadata.namespace, other.name


def _itself(obj: _Object) -> Iterator[Fault]:
    own = (obj.kind, obj.metadata.namespace, obj.metadata.name)
    for number, other in enumerate(obj.spec.depends_on):
        same = _key(obj, other) == own
        yield from when(same, f"spec.dependsOn[{number}]", "it names this object itself")


def _repeated(obj: _Object) -> Iterator[Fault]:
    seen = set()
    for number, other in enumerate(obj.spec.depends_on):
        key = (*_key(obj, other), other.ready_expr)
        yield from when(key in seen, f"spec.dependsOn[{number}]", "it occurs twice", other.name)
        seen.add(key)
