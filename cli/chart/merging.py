"""Merge an object and its variants into one tree with conditions by components.

A component adds keys, removes keys, replaces values, or appends to lists. If two components change
one value differently, or a list changes in another way, conditions cannot express it: then the
generator fails.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.errors import StalledError


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Components of which one must be on, and those that must all be off."""

    any_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A value with its key, which is empty in lists, and its condition."""

    key: str
    node: "Node"
    condition: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """A mapping."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A list."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A scalar, or an empty mapping or list."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A scalar that is another one with a component."""

    component: str
    chosen: Leaf
    otherwise: Leaf


Node = Mapped | Listed | Leaf | Choice


class MergeError(StalledError):
    """Components change the same thing in ways that switches cannot tell."""

    default_reason = "MergeFailed"


def merge(value: Any, variants: Mapping[str, Any], *, path: str = "") -> Node:
    """Return the merged tree of a value and its variants with single components.

    Raises:
        MergeError: conditions cannot express the variants.
    """
    if isinstance(value, dict) and value and all(isinstance(v, dict) for v in variants.values()):
        return _mapped(value, variants, path)
    if isinstance(value, list) and value and all(isinstance(v, list) for v in variants.values()):
        return _listed(value, variants, path)
    changed = {name: variant for name, variant in variants.items() if variant != value}
    match list(changed.items()):
        case []:
            return Leaf(value=value)
        case [(name, variant)] if not isinstance(variant, dict | list):
            return Choice(component=name, chosen=Leaf(value=variant), otherwise=Leaf(value=value))
        case _:
            raise MergeError(f"{', '.join(changed)}: {path} is changed in ways that do not combine")


def _mapped(value: Mapping[str, Any], variants: Mapping[str, Any], path: str) -> Node:
    parts = []
    for key, item in value.items():
        holding = {name: each[key] for name, each in variants.items() if key in each}
        gone = tuple(name for name in variants if name not in holding)
        node = merge(item, holding, path=f"{path}.{key}")
        parts.append(Part(key=key, node=node, condition=Condition(none_of=gone)))
    added = {key: None for each in variants.values() for key in each if key not in value}
    for key in added:
        new = {name: each[key] for name, each in variants.items() if key in each}
        first, *others = new.values()
        if any(other != first for other in others):
            raise MergeError(f"{', '.join(new)}: {path}.{key} is added with different values")
        node = merge(first, {}, path=f"{path}.{key}")
        parts.append(Part(key=key, node=node, condition=Condition(any_of=tuple(new))))
    return Mapped(parts=tuple(parts))


def _listed(value: Sequence[Any], variants: Mapping[str, Any], path: str) -> Node:
    for name, each in variants.items():
        kept = each[: len(value)]
        same = [
            type(old) is type(new) and (isinstance(old, dict) or old == new)
            for old, new in zip(value, kept, strict=False)
        ]
        if len(same) < len(value) or not all(same):
            raise MergeError(f"{name}: {path} is a list that is not only appended to")
    parts = []
    for number, item in enumerate(value):
        others = {name: each[number] for name, each in variants.items()}
        node = merge(item, others, path=f"{path}[{number}]")
        parts.append(Part(key="", node=node, condition=Condition()))
    for name, each in variants.items():
        for item in each[len(value) :]:
            node = merge(item, {}, path=path)
            parts.append(Part(key="", node=node, condition=Condition(any_of=(name,))))
    return Listed(parts=tuple(parts))
