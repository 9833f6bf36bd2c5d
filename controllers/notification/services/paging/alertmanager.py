"""Alertmanager: an alert that the success that follows ends.

Schema: prometheus/alertmanager ``api/v2/openapi.yaml`` (``postableAlerts``). The labels are those
of Flux (notification-controller ``internal/notifier/alertmanager.go``).
"""

import re
from datetime import timedelta
from typing import Final

from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Target, bearer, post
from toolkit.remote.proxy import basic

_NO_LABEL: Final = re.compile(r"[^a-zA-Z0-9_]")
_LASTS: Final = timedelta(hours=1)
"""The end of an alert that no later event resolves."""


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Post an alert."""
    if notice.updates_commit:
        return
    event = notice.event
    about = event.involved_object
    told = dict(notice.metadata)
    annotations = {"message": event.message}
    if summary := told.pop("summary", ""):
        annotations["summary"] = summary
    labels = {_label(key): value for key, value in told.items()}
    labels |= {
        "alertname": f"Flux{about.kind}{event.reason}",
        "severity": event.severity,
        "reason": event.reason,
        "kind": about.kind,
        "name": about.name,
        "namespace": about.namespace,
        "reportingcontroller": event.reporting_controller,
    }
    began = event.moment
    alert = {
        "labels": labels,
        "annotations": annotations,
        "startsAt": began.isoformat(),
        "endsAt": (began + _LASTS if notice.failed else began).isoformat(),
    }
    login = bearer(target.token)
    if not login and target.username:
        login = {"Authorization": basic(target.username, target.password)}
    await post(ask, target.address, [alert], login)


def _label(key: str) -> str:
    """Return a valid name; Alertmanager refuses the whole alert for an invalid one."""
    name = _NO_LABEL.sub("_", key)
    return f"_{name}" if name[:1].isdigit() else name
