"""Cycles of objects that wait for each other, in the cluster and with the new object.

Kustomizations and HelmReleases wait for objects in ``dependsOn``, GitRepositories for those that
they include. The reported path leaves out objects in namespaces that the author did not name.
"""

import functools
import hashlib
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from toolkit.objects import Json, ObjectKey, key_of
from toolkit.policy import cycles, fieldpaths
from webhooks.validation.rule import Fault, Rule

WAITS: Final = ("spec.dependsOn[]", "spec.include[].repository")
_BUILT_FROM: Final = (
    *("sourceRef", "sourceRefs", "path", "targetNamespace", "namePrefix", "nameSuffix"),
    *("components", "patches", "patchesStrategicMerge", "patchesJson6902", "postBuild"),
    "kubeConfig",
)


@dataclass(frozen=True, slots=True)
class Waiter:
    """One of our objects, of a kind whose objects may wait."""

    kind: str
    key: ObjectKey

    def __str__(self) -> str:
        return f"{self.kind}/{self.key}"


@dataclass(frozen=True, slots=True)
class Seen:
    """The cached part of an object: its dependencies, and the inputs of its build."""

    waits_for: tuple[Waiter, ...]
    build: "Build | None"


@dataclass(frozen=True, slots=True)
class Build:
    """The inputs of a build: the digest of all but the path, and the path.

    ``path`` begins with a slash and has none at its end; that of the root is empty.
    """

    ground: bytes
    path: str


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata
    spec: dict[str, Any] = {}


_DECODER: Final = msgspec.json.Decoder(_Object)


def rule(field: str) -> Rule[Json]:
    """Return the rule for a kind whose objects wait for those that ``field`` names."""
    return Rule(
        name="waits-for-itself",
        fields=(field,),
        demands="no object waits for itself, over however many others",
        remedy="remove one of these references; if they are to be turned round, begin with the "
        "other",
        find=lambda _: iter(()),
    )


@functools.cache
def decoder(kind: str) -> Callable[[bytes], Seen]:
    """Return the decoder for objects of a kind; always the same, so that users share a cache."""
    return functools.partial(decode, kind=kind)


def decode(body: bytes, kind: str) -> Seen:
    """Read an object of a kind from the API server."""
    found = _DECODER.decode(body)
    metadata = {"name": found.metadata.name, "namespace": found.metadata.namespace}
    return seen({"kind": kind, "metadata": metadata, "spec": found.spec})


def seen(obj: Json) -> Seen:
    """Return the cached part of an object."""
    return Seen(tuple(other for _, other in _named(obj)), build(obj))


def build(obj: Json) -> Build | None:
    """Return the inputs of a build; None for a kind that does not build."""
    spec = obj.get("spec") or {}
    parts = {name: spec.get(name) for name in _BUILT_FROM if spec.get(name)}
    if not parts.keys() & {"sourceRef", "sourceRefs"}:
        return None
    namespace = key_of(obj).namespace
    if source := parts.get("sourceRef"):
        parts["sourceRef"] = {"namespace": namespace, **source}
    path = posixpath.normpath(f"/{parts.pop('path', '')}").rstrip("/")
    text = msgspec.json.encode([namespace, parts], order="deterministic")
    return Build(hashlib.blake2b(text, digest_size=16).digest(), path)


def find(
    obj: Json, lookup: Callable[[Waiter], Seen | None], *, proven: bool = True
) -> Iterator[Fault]:
    """Yield a fault if the object would wait for itself.

    Callers that are not ``proven`` to be API servers only get names from the request.
    """
    own = Waiter(str(obj.get("kind") or ""), key_of(obj))
    first = {other: field for field, other in reversed(list(_named(obj)))}
    if not first:
        return

    def waits_for(waiter: Waiter) -> tuple[Waiter, ...]:
        if waiter == own:
            # that it names itself is another rule's to tell
            return tuple(each for each in first if each != own)
        known = lookup(waiter)
        return known.waits_for if known else ()

    if way := cycles.cycle(own, waits_for):
        several = len({each.kind for each in way}) > 1
        named = [str(each) if several else str(each.key) for each in way]
        shown = [
            text if each.key.namespace == own.key.namespace or each in first else "…"
            for each, text in zip(way, named, strict=True)
        ]
        told = f": {', '.join(shown)}" if proven else f", by way of {named[1]}"
        yield Fault(first[way[1]], f"it would wait for itself{told}")


def _named(obj: Json) -> Iterator[tuple[str, Waiter]]:
    """Yield the dependencies of an object; a reference without kind is to the same kind."""
    namespace, kind = key_of(obj).namespace, obj.get("kind")
    for path in WAITS:
        for place, reference in fieldpaths.values(obj, path):
            name = str(reference.get("name") or "")
            key = ObjectKey(str(reference.get("namespace") or namespace), name)
            yield place, Waiter(str(reference.get("kind") or kind or ""), key)
