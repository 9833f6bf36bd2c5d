"""Sentry: an event in an envelope.

Schema: develop.sentry.dev/sdk/data-model/envelopes and /event-payloads. The address is the DSN. The
id of the event is that of the delivery, so that one which is sent again is stored once.
"""

from typing import Final
from urllib.parse import urlsplit

import msgspec

from controllers.notification.events.matching import Notice
from controllers.notification.services.limits import cut
from controllers.notification.services.service import Ask, Target, UnsuitableError

_LONGEST_TAG: Final = 200
_NO_DSN: Final = "the address is not a DSN: write https://<key>@<host>/<project>"


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send an event."""
    if notice.updates_commit:
        return
    url, key = endpoint(target.address)
    event = {
        "event_id": notice.key,
        "timestamp": notice.event.timestamp,
        "platform": "other",
        "logger": notice.event.reporting_controller,
        "level": "error" if notice.failed else "info",
        "server_name": notice.event.reporting_instance,
        "environment": target.channel or "production",
        "message": {"formatted": f"{notice.title}: {notice.event.message}"},
        "tags": {
            "kind": notice.event.involved_object.kind,
            "name": cut(notice.event.involved_object.name, _LONGEST_TAG),
            "namespace": notice.event.involved_object.namespace,
            "reason": notice.event.reason,
        },
        "extra": notice.metadata,
        "fingerprint": [notice.title, notice.event.reason],
    }
    payload = msgspec.json.encode(event)
    head = msgspec.json.encode({"event_id": notice.key, "sent_at": notice.event.timestamp})
    item = msgspec.json.encode({"type": "event", "length": len(payload)})
    await ask(
        "POST",
        url,
        body=b"\n".join((head, item, payload, b"")),
        headers={
            "Content-Type": "application/x-sentry-envelope",
            "X-Sentry-Auth": f"Sentry sentry_version=7, sentry_client=penstock, sentry_key={key}",
        },
    )


def endpoint(dsn: str) -> tuple[str, str]:
    """Return the address and the key of a DSN.

    Raises:
        UnsuitableError: the text is not a DSN.
    """
    try:
        parts = urlsplit(dsn)
        _ = parts.port
    except ValueError as exc:
        raise UnsuitableError(_NO_DSN) from exc
    path, _, project = parts.path.rpartition("/")
    if not (parts.username and parts.hostname and project.isdigit()):
        raise UnsuitableError(_NO_DSN)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{path}/api/{project}/envelope/", parts.username
