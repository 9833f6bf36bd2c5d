"""The record of a migration in the cluster, with which it can be resumed and undone.

It is a ConfigMap in the namespace of Flux, written before each step. Each write names the version
that it replaces, so that two users cannot migrate a cluster at once.
"""

from contextlib import suppress
from typing import Final

import msgspec

from cli import errors
from cli.migrating.survey import PARTS
from toolkit.kube.client import Client
from toolkit.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig

CONFIG_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")
NAME: Final = "penstock-migration"
MANAGER: Final = "penstock-migrate"
_KEY: Final = "state.json"


class Part(msgspec.Struct, frozen=True):
    """An object that was changed, and the labels that it had."""

    version: str
    kind: str
    namespace: str
    name: str
    labels: dict[str, str] = {}

    @property
    def ref(self) -> ObjectRef:
        """Return the reference to the ConfigMap."""
        return ObjectRef(GroupVersionKind.parse(self.version, self.kind), self.namespace, self.name)


class Memory(msgspec.Struct, frozen=True):
    """The record. ``replicas`` are those of Flux's Deployments before they were stopped.

    - ``parts`` were excluded from reconciliation.
    - ``grants`` (namespace and name) were written.
    - ``fresh`` tells that sources must be shared as in a first installation.
    - ``done`` are the steps that were begun.
    - ``unready`` are the appliers that were not ready at the start.
    """

    namespace: str = ""
    replicas: dict[str, int] = {}
    parts: tuple[Part, ...] = ()
    grants: tuple[tuple[str, str], ...] = ()
    fresh: bool = False
    unready: tuple[str, ...] = ()
    done: tuple[str, ...] = ()


class Book:
    """Reads and writes the memory of one cluster."""

    def __init__(self, api: Client, namespace: str) -> None:
        self._api, self._namespace = api, namespace
        self._version = ""
        self.memory = Memory()

    @property
    def is_written(self) -> bool:
        """Tell whether a migration was begun."""
        return bool(self._version)

    async def open(self) -> None:
        """Read what there is.

        Raises:
            FailedError: it cannot be understood.
        """
        try:
            found = await self._api.get(CONFIG_MAP, NAME, self._namespace)
        except NotFoundError:
            return
        self._version = str(dig(found, "metadata", "resourceVersion"))
        where = f"ConfigMap {self._namespace}/{NAME}, data.{_KEY}"
        try:
            self.memory = msgspec.json.decode(dig(found, "data", _KEY, default=""), type=Memory)
        except msgspec.DecodeError as exc:
            raise errors.FailedError(
                f"{where}: cannot be read; restore it, or delete it to begin anew"
            ) from exc
        # A user who may write ConfigMaps here must not make an administrator change other objects.
        for part in self.memory.parts:
            if part.ref.gvk not in PARTS or part.namespace not in {"", self._namespace}:
                raise errors.FailedError(
                    f"{where}: {part.ref} is not a part of Flux; restore it, or delete it to "
                    "begin anew"
                )

    async def write(self, memory: Memory) -> None:
        """Replace the record.

        Raises:
            FailedError: another run has replaced it meanwhile.
        """
        data = {_KEY: msgspec.json.encode(memory).decode()}
        metadata: Json = {"name": NAME, "namespace": self._namespace}
        obj: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        try:
            if self._version:
                metadata["resourceVersion"] = self._version
                where = NAME, self._namespace
                found = await self._api.patch(
                    CONFIG_MAP, *where, obj, strategy="merge", manager=MANAGER
                )
            else:
                found = await self._api.create(obj)
        except (ConflictError, AlreadyExistsError) as exc:
            raise errors.FailedError(
                f"ConfigMap {self._namespace}/{NAME} was changed by another `penstock migrate`: "
                "wait until that has ended, and run this again"
            ) from exc
        self._version = str(dig(found, "metadata", "resourceVersion"))
        self.memory = memory

    async def erase(self) -> None:
        """Forget everything."""
        with suppress(NotFoundError):
            await self._api.delete(CONFIG_MAP, NAME, self._namespace)
        self._version, self.memory = "", Memory()
