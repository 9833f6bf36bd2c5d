"""Keep one object with a fixed name in place, until an administrator deletes it.

Deleting such an object is the way to recover in an emergency, so the deletion is final. A write in
progress must not create the object again: each write names the UID of the object that it changes,
and the API server answers 409 if that object does not exist.
"""

from toolkit.kube.client import Client
from toolkit.kube.errors import ConflictError, NotFoundError
from toolkit.kube.informer import Change
from toolkit.objects import GroupVersionKind, Json


class Singleton:
    """One object that one replica at a time applies; a watch must tell it of all changes."""

    def __init__(self, client: Client, gvk: GroupVersionKind, name: str, *, manager: str) -> None:
        self.deleted = False
        """Whether another client has deleted the object."""
        self._client = client
        self._gvk = gvk
        self._name = name
        self._manager = manager
        self._begun = False
        self._uid = ""
        self._withdrawn = ""

    async def apply(self, obj: Json) -> Json | None:
        """Apply the object and return it; None if another client has deleted it.

        Raises:
            ApiError: the API server refuses the object.
        """
        written = None if self.deleted else await self._write(obj)
        return None if self.deleted else written

    async def _write(self, obj: Json) -> Json | None:
        self._begun = True
        identity = {"uid": self._uid} if self._uid else {}
        try:
            applied = await self._client.apply(
                obj | {"metadata": obj["metadata"] | identity}, manager=self._manager
            )
        except ConflictError:
            return None
        self._uid = applied.object["metadata"]["uid"]
        return applied.object

    def see(self, change: Change[Json]) -> bool:
        """Handle a change; return whether another client has deleted the object."""
        seen = change.new or change.old or {}
        uid = seen["metadata"]["uid"]
        if uid == self._withdrawn:
            return False
        if change.new is not None:
            self._uid = uid
            return False
        gone = self._begun and uid == self._uid
        self._uid = ""
        self.deleted = self.deleted or gone
        return gone

    async def withdraw(self) -> bool:
        """Delete the object until the next apply; tell whether it was there.

        Raises:
            ApiError: the API server refuses.
        """
        self._withdrawn, self._uid, self._begun = self._uid or self._withdrawn, "", False
        try:
            await self._client.delete(self._gvk, self._name)
        except NotFoundError:
            return False
        return True
