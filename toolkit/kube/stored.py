"""The objects of one kind as they are stored: list them, and store each one again.

An API server stores an object in the storage version whenever it is written, even without a change.
``metadata.managedFields`` keep the version in which each manager wrote. They are changed to the
same version, because the API server cannot merge an apply with fields of a version that is no
longer served (Flux's newest definitions serve only the newest).

Writes name the uid and resourceVersion that were read, so they undo no other write.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolkit.kube.client import Client
from toolkit.kube.errors import ConflictError
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig, key_of

DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
MANAGER: Final = "penstock-migration"
_PAGE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One object: ``known`` is its identity, ``owners`` are its managedFields if one is old."""

    key: ObjectKey
    known: Json
    owners: tuple[Json, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The objects of a kind, in the version ``gvk`` has; with ``dry_run`` nothing is stored."""

    client: Client
    gvk: GroupVersionKind
    definition: str
    dry_run: bool = False

    async def items(self) -> AsyncIterator[Item]:
        """Yield every object, page by page.

        Raises:
            ApiError: they cannot be listed.
        """
        async for page in self.client.pages(self.gvk, limit=_PAGE, metadata_only=True):
            for found in page:
                yield self._item(found)

    def _item(self, found: Json) -> Item:
        metadata = found["metadata"]
        entries = metadata.get("managedFields") or ()
        old = any(entry.get("apiVersion") != self.gvk.api_version for entry in entries)
        return Item(
            key=key_of(found),
            known={name: metadata[name] for name in ("uid", "resourceVersion")},
            owners=relabelled(entries, self.gvk.api_version) if old else (),
        )

    async def write(self, item: Item) -> None:
        """Write the object unchanged.

        Raises:
            ConflictError: another client has written it since it was read, so it is already
                migrated.
            NotFoundError: the object was deleted.
            ApiError: the API server refuses the write.
        """
        await self.client.patch(
            self.gvk,
            item.key.name,
            item.key.namespace,
            _patch(item) if item.owners else {"metadata": item.known},
            strategy="json" if item.owners else "merge",
            manager=MANAGER,
            dry_run=self.dry_run,
        )

    async def cut(self) -> bool:
        """Set ``storedVersions`` of the CRD to this version; return False if it changed meanwhile.

        Raises:
            ApiError: the API server refuses the write.
        """
        definition = await self.client.get(DEFINITION, self.definition)
        if storage(definition) != self.gvk.version:
            return False
        body: Json = {
            "metadata": {"resourceVersion": definition["metadata"]["resourceVersion"]},
            "status": {"storedVersions": [self.gvk.version]},
        }
        try:
            await self.client.patch(
                DEFINITION,
                self.definition,
                "",
                body,
                strategy="merge",
                subresource="status",
                manager=MANAGER,
                dry_run=self.dry_run,
            )
        except ConflictError:
            return False
        return True


def storage(definition: Json) -> str:
    """Return the version that a definition has objects written in."""
    versions = dig(definition, "spec", "versions", default=[])
    return next((str(each["name"]) for each in versions if each.get("storage")), "")


def relabelled(entries: Sequence[Json], api_version: str) -> tuple[Json, ...]:
    """Return managedFields in one version; several entries of a manager are merged."""
    found: dict[tuple[Any, ...], Json] = {}
    for entry in entries:
        same = tuple(entry.get(name, "") for name in ("manager", "operation", "subresource"))
        earlier = found.get(same)
        joined = {**entry, "apiVersion": api_version}
        if earlier is not None:
            joined["time"] = max(str(earlier.get("time", "")), str(entry.get("time", "")))
            joined["fieldsV1"] = _union(earlier.get("fieldsV1") or {}, entry.get("fieldsV1") or {})
        found[same] = joined
    return tuple(found.values())


def _union(one: Json, other: Json) -> Json:
    both = {name: _union(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **both}


def _patch(item: Item) -> list[Json]:
    """Return the JSON patch of the owners; its tests of the identity make it fail with 409."""
    identity = [
        {"op": "replace", "path": f"/metadata/{name}", "value": value}
        for name, value in item.known.items()
    ]
    owners = {"op": "replace", "path": "/metadata/managedFields", "value": list(item.owners)}
    return [*identity, owners]
