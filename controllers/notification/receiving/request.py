"""A request of a sender, what its check is given, and what it finds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from crds.notification_receiver import Receiver
from toolkit import untrusted

MOST_BYTES: Final = 5 << 20


class RefusedError(Exception):
    """The request is not from whom it should be, or not what it should be.

    ``status`` is that of the answer, the text is shown to the sender and holds nothing secret.
    """

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A request for a Receiver; ``secret`` is what its Secret holds."""

    receiver: Receiver
    headers: Mapping[str, str]
    body: bytes
    secret: Mapping[str, bytes] = field(repr=False)

    @property
    def token(self) -> bytes:
        """Return what sender and Receiver share."""
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
    """What a check found: the name of the event, and what no second request may have.

    Without ``counts`` the request itself may come again, but not after one that counted.
    """

    event: str = ""
    once: str = ""
    counts: bool = True


def require_event(hook: Hook, event: str) -> None:
    """Require an event that the Receiver acts upon.

    Raises:
        RefusedError: it is another one.
    """
    wanted = hook.receiver.spec.events
    if wanted and event.lower() not in {each.lower() for each in wanted}:
        raise RefusedError("the event is not one of spec.events")
