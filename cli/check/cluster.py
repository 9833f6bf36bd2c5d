"""The objects of a cluster, of Penstock's or Flux's kinds; unserved kinds are skipped."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from cli.check import subjects
from cli.check.subjects import Subject
from crds import KINDS, REFERENCE_GRANT
from crds.kind import Kind
from toolkit.apply import ownership
from toolkit.kube.client import Client
from toolkit.kube.errors import NoMatchError
from toolkit.objects import GroupVersionKind, Json, dig


@dataclass(frozen=True, slots=True)
class Found:
    """The objects, and whether the cluster serves ReferenceGrants."""

    subjects: list[Subject]
    knows_grants: bool


async def read(api: Client) -> Found:
    """Read all objects of the kinds that are checked, in the newest version that is served."""
    served = {kind.kind: await _list(api, kind) for kind in KINDS}
    found = [
        subjects.settled(Subject(obj=obj, by=ownership.owner_of(obj)), "")
        for listed in served.values()
        for obj in listed or ()
        if not dig(obj, "metadata", "deletionTimestamp")
    ]
    return Found(found, knows_grants=served[REFERENCE_GRANT.kind] is not None)


async def _list(api: Client, kind: Kind[Struct]) -> list[Json] | None:
    for gvk in _versions(kind):
        try:
            return await api.list(gvk)
        except NoMatchError:
            continue
    return None


def _versions(kind: Kind[Any]) -> Iterator[GroupVersionKind]:
    for version in (kind.version, *(old.version for old in kind.older)):
        yield GroupVersionKind(kind.group, version, kind.kind)
