"""What a release changes of the objects of the one before it, by what both render. Pure.

Only digests of the earlier objects are kept, because manifests hold values that may be secret.
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
    """Return what is kept of the objects of a release."""
    return {ref.identity: (ref, _digest(each)) for each in objects for ref in [ref_of(each)]}


def lines(before: Rendered, after: Rendered) -> tuple[str, ...]:
    """Return ``Deployment/ns/name created`` for whatever is otherwise than before."""
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
