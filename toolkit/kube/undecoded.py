"""Objects of the store that their model does not decode, and how their users learn of it.

A definition admits nothing that its model cannot read. But the store may hold what was written
under another definition, such as Flux's or that of another version. Nothing can be done for such an
object, and it must not look as if all were well: a controller reports a stand-in for it, the model
with the metadata and conditions of the object and an empty spec.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import msgspec

from crds import misfits, unwritten
from crds.kind import Kind
from crds.meta import Condition, ObjectMeta
from toolkit import telemetry
from toolkit.errors import StalledError
from toolkit.kube import predicates
from toolkit.kube.client import Client
from toolkit.kube.reconciliation import Event, EventSink, Reconcilable
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef

REASON: Final = "ValidationFailed"
_IDLE: Final = "nothing is done for it"
_FAILS: Final = (msgspec.MsgspecError, ValueError, RecursionError)

T = TypeVar("T", bound=Reconcilable)
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Undecoded:
    """The JSON of one object, and the error of its decoder."""

    raw: bytes = field(repr=False)
    error: Exception


class Modelled(Protocol[T_co]):
    """The fields of a ``crds.kind.Kind`` that a stand-in is made from."""

    @property
    def model(self) -> type[T_co]:
        """Return the struct that decodes the objects."""

    @property
    def gvk(self) -> tuple[str, str, str]:
        """Return (group, version, kind)."""


class StandIns(Generic[T]):
    """The stand-ins for objects of one kind, by key."""

    def __init__(self, kind: Modelled[T], client: Client, *, field_manager: str) -> None:
        self._gvk = GroupVersionKind(*kind.gvk)
        self._model = kind.model
        self._client = client
        self._manager = field_manager
        self._found: dict[ObjectKey, tuple[T, StalledError]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def items(self) -> Mapping[ObjectKey, T]:
        """Return all stand-ins."""
        return {key: found for key, (found, _) in self._found.items()}

    def get(self, key: ObjectKey) -> tuple[T, StalledError] | None:
        """Return the stand-in and what is wrong with the object; None for one that decodes."""
        return self._found.get(key)

    def saw(self, key: ObjectKey, found: Undecoded | None, *, finalizer: str) -> tuple[str, ...]:
        """Keep an object, or forget it; return why it must be reported, if it must be."""
        before = self._found.pop(key, None)
        if found is None:
            return ()
        new = stand_in(self._model, found.raw)
        self._found[key] = (new, StalledError(why(found, self._model), reason=REASON))
        return predicates.triggers(before[0] if before else None, new, finalizer=finalizer)

    async def write(self, obj: T, body: Json) -> T:
        """Merge ``body`` into the status of exactly this version; the API server keeps the rest.

        Raises:
            ApiError: the server refuses the write.
        """
        meta = obj.metadata
        reply = await self._client.patch(
            self._gvk,
            meta.name,
            meta.namespace,
            {"status": body, "metadata": {"resourceVersion": meta.resource_version}},
            strategy="merge",
            subresource="status",
            manager=self._manager,
        )
        return stand_in(self._model, msgspec.json.encode(reply))


class Notifying(Protocol):
    """An informer."""

    def subscribe_undecoded(self, handler: Callable[[ObjectKey, Undecoded | None], None]) -> None:
        """Call ``handler`` for every object that does not decode, and with None once it does."""


async def tell(
    kind: Kind[Any], informer: Notifying, recorder: EventSink, *, meanwhile: str = _IDLE
) -> None:
    """Send an event for each object of a kind that no controller reconciles; never returns.

    The event says what happens ``meanwhile``. The status, if there is one, belongs to others.
    """
    found: set[ObjectKey] = set()
    gvk = GroupVersionKind(*kind.gvk)

    def handle(key: ObjectKey, lost: Undecoded | None) -> None:
        found.discard(key)
        if lost is not None:
            found.add(key)
            meta = identity(lost)
            recorder.emit(
                Event(
                    ref=ObjectRef(gvk, key.namespace, key.name),
                    meta=meta,
                    severity="error",
                    reason=REASON,
                    message=why(lost, kind.model, meanwhile=meanwhile),
                )
            )
        telemetry.UNDECODED.labels(gvk.kind).set(len(found))

    informer.subscribe_undecoded(handle)
    await asyncio.Event().wait()


def identity(found: Undecoded) -> ObjectMeta:
    """Return the metadata of an object that does not decode, as far as they can be read."""
    return _metadata(_outline(found.raw).metadata)


def is_reported(obj: Reconcilable) -> bool:
    """Tell whether the conditions still say that the object does not decode."""
    return any(
        (row.type, row.status, row.reason) == ("Ready", "False", REASON)
        for row in obj.status.conditions
    )


def why(found: Undecoded, model: type[Any], *, meanwhile: str = _IDLE) -> str:
    """Return what is wrong with an object, what happens ``meanwhile``, and what to do."""
    document: Any = None
    if isinstance(found.error, msgspec.ValidationError):
        document = _attempt(lambda: msgspec.json.decode(found.raw))
    told = misfits.told(found.error, document, model)
    held = identity(found).deletion_timestamp
    waiting = "; its deletion waits for that, too" if held else ""
    return f"the object cannot be read, and {meanwhile} until it can: {told}{waiting}"


def stand_in(model: type[T], raw: bytes) -> T:
    """Return an object of the model with the metadata and conditions that can be read."""
    made: Any = model
    types = {each.name: each.type for each in msgspec.structs.fields(made)}
    outline = _outline(raw)
    conditions, observed = _status(outline.status)
    fields = {each.name for each in msgspec.structs.fields(types["status"])}
    about = {"observed_generation": observed} if "observed_generation" in fields else {}
    status = types["status"](conditions=conditions, **about)
    spec = unwritten.spec(types["spec"])
    return cast("T", made(metadata=_metadata(outline.metadata), spec=spec, status=status))


class _Outline(msgspec.Struct):
    """The parts of an object that say who it is; the others are not looked into."""

    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Identity(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[msgspec.Raw] = []
    observed_generation: int = 0


def _outline(raw: bytes) -> _Outline:
    return _attempt(lambda: msgspec.json.decode(raw, type=_Outline)) or _Outline()


def _metadata(raw: msgspec.Raw) -> ObjectMeta:
    """Return the metadata, or only who the object is where others of its fields are odd."""
    read = _attempt(lambda: msgspec.json.decode(raw, type=ObjectMeta))
    if read is not None:
        return read
    identity = _attempt(lambda: msgspec.json.decode(raw, type=_Identity)) or _Identity()
    return ObjectMeta(**msgspec.structs.asdict(identity))


def _status(raw: msgspec.Raw) -> tuple[list[Condition], int]:
    found = _attempt(lambda: msgspec.json.decode(raw, type=_Status)) or _Status()
    rows = [_condition(row) for row in found.conditions]
    return [row for row in rows if row], found.observed_generation


def _condition(raw: msgspec.Raw) -> Condition | None:
    return _attempt(lambda: msgspec.json.decode(raw, type=Condition))


R = TypeVar("R")


def _attempt(read: Callable[[], R]) -> R | None:
    """Return what can be read, None if it cannot."""
    try:
        return read()
    except _FAILS:
        return None
