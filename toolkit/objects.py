"""Kubernetes objects as JSON values, and the small types that name them.

An object is the ``dict`` decoded from an answer. Nothing here does IO or depends on a kind.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A decoded JSON object, as the API server sends and accepts it."""


@dataclass(frozen=True, slots=True, order=True)
class GroupVersionKind:
    """A kind in one version of its group; the core group is the empty string."""

    group: str
    version: str
    kind: str

    @classmethod
    def parse(cls, api_version: str, kind: str) -> "GroupVersionKind":
        """Split ``apps/v1`` or ``v1`` and add the kind."""
        group, _, version = api_version.rpartition("/")
        return cls.shared(group, version, kind)

    @classmethod
    def shared(cls, group: str, version: str, kind: str) -> "GroupVersionKind":
        """Return the same instance for equal arguments, to save memory with thousands of objects.

        Strings that are longer than any name in the API are not cached.
        """
        if len(group) + len(version) + len(kind) > _LONGEST_SHARED:
            return cls(group, version, kind)
        return _shared(group, version, kind)

    @property
    def api_version(self) -> str:
        """Return ``group/version``, or ``version`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> tuple[str, str]:
        """Return the version-independent identity of the kind."""
        return self.group, self.kind

    def __str__(self) -> str:
        return f"{self.api_version}, Kind={self.kind}"


_LONGEST_SHARED: Final = 400
_shared: Final = functools.lru_cache(maxsize=1024)(GroupVersionKind)


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """Namespace and name; a cluster-scoped object has an empty namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, order=True)
class ObjectRef:
    """One object of one kind. Prints as Flux prints it: ``Deployment/apps/web``."""

    gvk: GroupVersionKind
    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        """Return namespace and name."""
        return ObjectKey(self.namespace, self.name)

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Return (group, kind, namespace, name): the same object in whichever version."""
        return self.gvk.group, self.gvk.kind, self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.gvk.kind}/{self.key}"


_MAPPING: Final = (dict, Mapping)
"""``dict`` first: to look at an abstract class takes ten times as long."""


def gvk_of(obj: Mapping[str, Any]) -> GroupVersionKind:
    """Return the object's ``apiVersion`` and ``kind``; empty strings where they are missing."""
    return GroupVersionKind.parse(str(obj.get("apiVersion") or ""), str(obj.get("kind") or ""))


def key_of(obj: Mapping[str, Any]) -> ObjectKey:
    """Return the object's namespace and name; empty strings where they are missing."""
    meta = obj.get("metadata") or {}
    return ObjectKey(str(meta.get("namespace") or ""), str(meta.get("name") or ""))


def ref_of(obj: Mapping[str, Any]) -> ObjectRef:
    """Return kind, namespace and name of the object."""
    key = key_of(obj)
    return ObjectRef(gvk_of(obj), key.namespace, key.name)


def dig(obj: Mapping[str, Any], *path: str, default: Any = None) -> Any:
    """Follow ``path`` through nested mappings; ``default`` where a step is missing or null."""
    value: Any = obj
    for step in path:
        if not isinstance(value, _MAPPING):
            return default
        value = value.get(step)
    return default if value is None else value
