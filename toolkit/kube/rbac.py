"""What a process may do, declared beside the code that does it; RBAC manifests are made from it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One RBAC rule; ``names`` narrows it to objects of these names."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
