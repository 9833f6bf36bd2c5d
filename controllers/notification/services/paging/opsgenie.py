"""Opsgenie: an alert that is closed by the success that follows.

Schema: docs.opsgenie.com/docs/alert-api. The alias keeps alerts of one object together.
"""

from typing import Final
from urllib.parse import quote

from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Target, post

_ADDRESS: Final = "https://api.opsgenie.com/v2/alerts"
_LONGEST_MESSAGE: Final = 130


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Create an alert, or close it."""
    if notice.updates_commit:
        return
    headers = {"Authorization": f"GenieKey {target.token}"}
    about = notice.event.involved_object
    alias = about.uid or str(about)
    base = target.base(_ADDRESS)
    if not notice.failed:
        url = f"{base}/{quote(alias, safe='')}/close?identifierType=alias"
        await post(ask, url, {"source": "penstock", "note": notice.event.message}, headers)
        return
    body = {
        "message": f"{about.kind}/{about.name}.{about.namespace}"[:_LONGEST_MESSAGE],
        "alias": alias,
        "description": notice.event.message,
        "details": {**notice.metadata, "severity": notice.event.severity},
        "source": notice.event.reporting_controller,
    }
    await post(ask, base, body, headers)
