"""A request of a sender: the input and the result of its check."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from crds.notification_receiver import Receiver
from toolkit import untrusted

MOST_BYTES: Final = 5 << 20


class RefusedError(Exception):
    """The request is refused.

    ``status`` is the HTTP status of the response. The message is sent to the sender, and contains
    no secret.
    """

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A request for a Receiver; ``secret`` is the content of its Secret."""

    receiver: Receiver
    headers: Mapping[str, str]
    body: bytes
    secret: Mapping[str, bytes] = field(repr=False)

    @property
    def digest(self) -> str:
        """Return a key for requests with the same body."""
        return f"body {hashlib.sha256(self.body).hexdigest()}"

    @property
    def token(self) -> bytes:
        """Return the token that sender and Receiver share."""
        return self.secret.get("token", b"").strip()

    def header(self, name: str) -> str:
        """Return a header, empty if it is missing."""
        return self.headers.get(name, "")

    def json(self) -> dict[str, Any]:
        """Return the body.

        Raises:
            RefusedError: it is not JSON, or nested too deeply.
        """
        try:
            return untrusted.load_json(self.body, dict[str, Any], size=MOST_BYTES)
        except untrusted.UntrustedError as exc:
            raise RefusedError(f"the body cannot be read: {exc}") from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result of a check: the event, and the keys by which a repetition is recognized.

    No earlier request may have had one of ``once``. ``also`` are further keys of this request: a
    later one whose ``once`` has them is a repetition.
    """

    event: str = ""
    once: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """Return all keys to remember."""
        return self.once + self.also


def require_event(hook: Hook, event: str) -> None:
    """Require an event that the Receiver acts upon.

    Raises:
        RefusedError: it is another one.
    """
    wanted = hook.receiver.spec.events
    if wanted and event.lower() not in {each.lower() for each in wanted}:
        raise RefusedError("the event is not one of spec.events")
