"""Datadog: an event in the stream of events.

Schema: docs.datadoghq.com/api/latest/events/#post-an-event (v1).
"""

from typing import Final

from controllers.notification.events.matching import Notice
from controllers.notification.services.limits import cut
from controllers.notification.services.service import Ask, Target, post

_LONGEST_TITLE: Final = 500
_LONGEST_KEY: Final = 100
_LONGEST_TAG: Final = 200


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Post an event."""
    if notice.updates_commit:
        return
    event = notice.event
    about = event.involved_object
    body = {
        "title": f"{about.kind} {about.namespace}/{about.name}: {event.reason}"[:_LONGEST_TITLE],
        "text": event.message,
        "alert_type": "error" if notice.failed else "info",
        "aggregation_key": (about.uid or str(about))[:_LONGEST_KEY],
        "source_type_name": "fluxcd",
        "tags": [
            f"flux_reporting_controller:{event.reporting_controller}",
            f"flux_reason:{event.reason}",
            f"kube_kind:{about.kind.lower()}",
            cut(f"kube_name:{about.name}", _LONGEST_TAG),
            f"kube_namespace:{about.namespace}",
            *(f"{key}:{value}" for key, value in sorted(notice.metadata.items())),
        ],
    }
    base = target.base("https://api.datadoghq.com")
    await post(ask, f"{base}/api/v1/events", body, {"DD-API-KEY": target.token})
