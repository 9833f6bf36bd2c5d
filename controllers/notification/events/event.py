"""An event as Flux's controllers post it (fluxcd/pkg ``apis/event/v1beta1``), read in bounds."""

import hashlib
from datetime import UTC, datetime
from typing import Final, Literal, TypeVar

import msgspec

from toolkit import forwarding, untrusted
from toolkit.notification.metadata import bounded
from toolkit.objects import GroupVersionKind, ObjectRef

T = TypeVar("T")

MOST_BYTES: Final = 3 << 20
"""Bytes of a request (notification-controller ``internal/server/event_server.go``)."""
LONGEST_MESSAGE: Final = 39_000
"""Characters of a message that are kept (``event_types.go``)."""

REVISION: Final = "revision"
ORIGIN_REVISION: Final = "originRevision"
TOKEN: Final = "token"  # noqa: S105 - the name of a key
COMMIT_STATUS: Final = "commit_status"
PREFIX: Final = "event.toolkit.fluxcd.io/"
"""Keys of metadata that users add by annotations."""
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 2999


class EventError(ValueError):
    """What was posted is not an event."""


class InvolvedObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The object that an event is about."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""

    @property
    def group(self) -> str:
        """Return the group of the kind."""
        return self.api_version.rpartition("/")[0]

    @property
    def ref(self) -> ObjectRef:
        """Return which object it is."""
        version = self.api_version.rpartition("/")[2]
        return ObjectRef(
            GroupVersionKind(self.group, version, self.kind), self.namespace, self.name
        )

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.kind}/{self.namespace}/{self.name}"


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that happened to an object."""

    involved_object: InvolvedObject
    severity: Literal["trace", "info", "error"]
    timestamp: str
    message: str
    reason: str
    metadata: dict[str, str] | None = None
    reporting_controller: str
    reporting_instance: str = ""

    def said(self, name: str) -> str:
        """Return metadata that the controller of the object's group added."""
        return (self.metadata or {}).get(f"{self.involved_object.group}/{name}", "")

    @property
    def moment(self) -> datetime:
        """Return when it happened; now if the time cannot be read, or is no year of an event."""
        try:
            found = datetime.fromisoformat(self.timestamp)
        except ValueError:
            return datetime.now(UTC)
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        return found if _FIRST_YEAR <= found.year <= _LAST_YEAR else datetime.now(UTC)

    @property
    def identity(self) -> str:
        """Return what makes two events the same one.

        As in Flux (``event_server.go`` ``eventKeyFunc``): object, message, revisions and token.
        """
        parts = (str(self.involved_object), self.message)
        said = (self.said(name) for name in (ORIGIN_REVISION, REVISION, TOKEN))
        return hashlib.sha256("\0".join((*parts, *said)).encode()).hexdigest()


def parse(body: bytes) -> Event:
    """Read an event, cut to what is kept.

    Raises:
        EventError: the body is not an event.
    """
    return _kept(_read(body, Event))


def parse_each(body: bytes) -> list[Event]:
    """Read an array of events.

    Raises:
        EventError: the body is none, or it has too many.
    """
    found = _read(body, list[Event])
    if len(found) > forwarding.MOST:
        raise EventError(f"more than {forwarding.MOST} events; send them in several requests")
    return [_kept(each) for each in found]


def _read(body: bytes, kind: type[T]) -> T:
    try:
        return untrusted.load_json(body, kind, size=MOST_BYTES)
    except untrusted.UntrustedError as exc:
        raise EventError(f"not an event: {exc}") from exc


def _kept(found: Event) -> Event:
    involved = found.involved_object
    if not (involved.kind and involved.namespace and involved.name):
        raise EventError("involvedObject: kind, namespace and name must be set")
    return msgspec.structs.replace(
        found, message=found.message[:LONGEST_MESSAGE], metadata=bounded(found.metadata or {})
    )
