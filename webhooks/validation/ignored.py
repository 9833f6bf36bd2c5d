"""Fields that are left to other writers: JSON pointers, and the objects that they are for."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from crds import kustomize_parts
from toolkit.apply import ignore, selector
from toolkit.errors import PenstockError
from webhooks.validation.remembered import remembered
from webhooks.validation.rule import Fault, Rule, read

T = TypeVar("T")


class _Ignoring(Protocol):
    @property
    def paths(self) -> Sequence[str]: ...
    @property
    def target(self) -> kustomize_parts.Selector | None: ...


def rules(path: str, given: Callable[[T], Sequence[_Ignoring]]) -> tuple[Rule[T], ...]:
    """Return the rules for a kind that has such a list at ``path``, which ends in ``[]``."""
    field = path.removesuffix("[]")
    pointers: Rule[T] = Rule(
        name="ignore-pointer",
        fields=(f"{path}.paths[]", f"{path}.target"),
        demands="it is a JSON pointer to a field that does not identify the object",
        remedy="write it as /spec/replicas; ~1 stands for a slash, ~0 for a tilde",
        find=lambda obj: _faults(field, given(obj)),
    )
    counts: Rule[T] = Rule(
        name="ignore-count",
        fields=(field,),
        demands=f"it has at most {ignore.MOST_RULES} rules, with {ignore.MOST_PATHS} paths in all, "
        f"and the patterns of targets compile to at most {ignore.MOST_INSTRUCTIONS} instructions",
        remedy="join rules with the same target, and ignore the object that holds the fields",
        find=lambda obj: _too_many(field, given(obj)),
    )
    return pointers, counts


def _too_many(field: str, given: Sequence[_Ignoring]) -> Iterator[Fault]:
    try:
        ignore.require_few([_rule(each) for each in given])
    except PenstockError as exc:
        yield Fault(field, str(exc))


def _faults(path: str, rules: Sequence[_Ignoring]) -> Iterator[Fault]:
    size = 0
    for number, each in enumerate(rules[: ignore.MOST_RULES]):
        field = f"{path}[{number}]"
        for place, pointer in enumerate(each.paths):
            yield from read(f"{field}.paths[{place}]", pointer or " ", ignore.parse_pointer)
        if size > ignore.MOST_INSTRUCTIONS:
            continue  # which is told of all rules together
        target = _rule(each).target
        size += target.size
        if each.target and (why := unselectable(target)):
            yield Fault(f"{field}.target", why)


def _rule(given: _Ignoring) -> ignore.IgnoreRule:
    target = given.target or kustomize_parts.Selector()
    chosen = selector.Selector(
        group=target.group,
        version=target.version,
        kind=target.kind,
        namespace=target.namespace,
        name=target.name,
        label_selector=target.label_selector,
        annotation_selector=target.annotation_selector,
    )
    return ignore.IgnoreRule(paths=tuple(given.paths), target=chosen)


@remembered(answers=1024)
def unselectable(chosen: selector.Selector) -> str:
    """Return why a selector is invalid; empty if it is valid. A pattern takes a millisecond."""
    try:
        chosen.check()
    except PenstockError as exc:
        return str(exc)
    return ""
