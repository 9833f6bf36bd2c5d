"""Which objects differ between a release and the one before it, by their manifests. Pure.

Only digests of the earlier objects are kept, because manifests may contain secret values.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from toolkit.apply.order import Identity
from toolkit.objects import Json, ObjectRef, ref_of

Rendered: TypeAlias = Mapping[Identity, tuple[ObjectRef, bytes]]
"""The objects of a release, each with a digest of its manifest."""


def rendered(objects: Iterable[Json]) -> Rendered:
    """Return references and digests of the objects of a release."""
    return {ref.identity: (ref, _digest(each)) for each in objects for ref in [ref_of(each)]}


def lines(before: Rendered, after: Rendered) -> tuple[str, ...]:
    """Return a line for each object that differs, such as ``Deployment/ns/name created``.

    The verbs are ``created``, ``configured`` and ``deleted``.
    """
    found = []
    for identity, (ref, digest) in after.items():
        known = before.get(identity)
        if known is None:
            found.append(f"{ref} created")
        elif known[1] != digest:
            found.append(f"{ref} configured")
    gone = (ref for identity, (ref, _) in before.items() if identity not in after)
    return (*found, *(f"{ref} deleted" for ref in gone))


def _digest(obj: Json) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(obj, order="sorted"), digest_size=16).digest()
