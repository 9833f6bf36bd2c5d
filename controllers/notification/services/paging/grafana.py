"""Grafana: an annotation on dashboards.

Schema: grafana.com/docs/grafana/latest/developers/http_api/annotations/#create-annotation.
"""

from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Target, bearer, post
from toolkit.remote.proxy import basic


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Create an annotation."""
    if notice.updates_commit:
        return
    event = notice.event
    about = event.involved_object
    tags = ["flux", event.reporting_controller, about.kind, about.name, about.namespace]
    tags += [f"{key}: {value}" for key, value in sorted(notice.metadata.items())]
    body: dict[str, object] = {"text": f"{notice.title}: {event.message}", "tags": tags}
    body["time"] = int(event.moment.timestamp() * 1000)
    login = bearer(target.token)
    if not login and target.username:
        login = {"Authorization": basic(target.username, target.password)}
    await post(ask, target.base(), body, login)
