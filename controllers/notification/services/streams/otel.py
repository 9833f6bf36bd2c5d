"""OpenTelemetry: a span for each event, one trace for each revision.

Schema: opentelemetry.io/docs/specs/otlp (JSON over HTTP) and opentelemetry-proto ``trace.proto``.
Events of the objects that one revision reaches are in one trace.
"""

import hashlib
from typing import Final

from controllers.notification.events.event import ORIGIN_REVISION, REVISION
from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Target, bearer, post
from toolkit.objects import Json
from toolkit.remote.proxy import basic

_INTERNAL: Final = 1
_OK: Final = 1
_ERROR: Final = 2
_PATH: Final = "/v1/traces"


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send one span."""
    if notice.updates_commit:
        return
    login = bearer(target.token)
    if not login and target.username:
        login = {"Authorization": basic(target.username, target.password)}
    address = target.base()
    url = address if address.endswith(_PATH) else f"{address}{_PATH}"
    await post(ask, url, span(notice), {**target.headers, **login})


def span(notice: Notice) -> Json:
    """Return the request."""
    event = notice.event
    about = event.involved_object
    revision = notice.metadata.get(ORIGIN_REVISION) or notice.metadata.get(REVISION) or notice.key
    when = str(int(event.moment.timestamp() * 1e6) * 1000)
    said = {
        "object.kind": about.kind,
        "object.name": about.name,
        "object.namespace": about.namespace,
        "object.uid": about.uid,
        "event.reason": event.reason,
        "event.message": event.message,
        **notice.metadata,
    }
    found: Json = {
        "traceId": hashlib.sha256(f"{notice.alert}\0{revision}".encode()).hexdigest()[:32],
        "spanId": hashlib.sha256(notice.key.encode()).hexdigest()[:16],
        "name": f"{about.kind}: {event.reason}",
        "kind": _INTERNAL,
        "startTimeUnixNano": when,
        "endTimeUnixNano": when,
        "attributes": _attributes(said),
        "status": {"code": _ERROR, "message": event.message} if notice.failed else {"code": _OK},
    }
    service = {
        "service.name": event.reporting_controller,
        "service.instance.id": event.reporting_instance,
    }
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(service)},
                "scopeSpans": [{"scope": {"name": "penstock"}, "spans": [found]}],
            }
        ]
    }


def _attributes(values: dict[str, str]) -> list[Json]:
    return [{"key": key, "value": {"stringValue": text}} for key, text in values.items() if text]
