"""PagerDuty: an incident that the success that follows resolves.

Schema: developer.pagerduty.com/docs/events-api-v2. ``spec.channel`` is the routing key, as in Flux.
"""

from typing import Final

from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Target, post

_ADDRESS: Final = "https://events.pagerduty.com"
_LONGEST: Final = 1024


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Trigger or resolve an incident, and send a change event."""
    if notice.updates_commit:
        return
    event = notice.event
    about = event.involved_object
    base = target.base(_ADDRESS)
    body = {
        "routing_key": target.channel,
        "event_action": "trigger" if notice.failed else "resolve",
        "dedup_key": about.uid or str(about),
        "payload": {
            "summary": f"{event.reason}: {about.kind} {about.name}.{about.namespace}"[:_LONGEST],
            "source": f"Flux {event.reporting_controller}",
            "severity": "error" if notice.failed else "info",
            "timestamp": event.timestamp,
            "component": about.name,
            "group": about.kind,
            "custom_details": {"message": event.message, **notice.metadata},
        },
    }
    await post(ask, f"{base}/v2/enqueue", body)
    if notice.failed:
        return
    change = {
        "routing_key": target.channel,
        "payload": {
            "summary": f"{event.reason}: {about.kind} {about.name}.{about.namespace}"[:_LONGEST],
            "source": f"Flux {event.reporting_controller}",
            "timestamp": event.timestamp,
            "custom_details": {"message": event.message, **notice.metadata},
        },
    }
    await post(ask, f"{base}/v2/change/enqueue", change)
