"""Grafana: an annotation on dashboards.

Schema: grafana.com/docs/grafana/latest/developers/http_api/annotations/#create-annotation.
"""

from typing import Final

from controllers.notification.events.matching import Notice
from controllers.notification.services.limits import cut
from controllers.notification.services.service import Ask, Target, bearer, post
from toolkit.remote.proxy import basic


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Create an annotation."""
    if notice.updates_commit:
        return
    event = notice.event
    about = event.involved_object
    tags = ["flux", event.reporting_controller, about.kind, about.name, about.namespace]
    tags = [cut(tag, _LONGEST_TAG) for tag in tags]
    for key, value in notice.metadata.items():
        tag = cut(f"{key}: {value}", _LONGEST_TAG)
        if _length([*tags, tag]) <= _LONGEST_TAGS:
            tags.append(tag)
    body: dict[str, object] = {"text": f"{notice.title}: {event.message}", "tags": tags}
    body["time"] = int(event.moment.timestamp() * 1000)
    login = bearer(target.token)
    if not login and target.username:
        login = {"Authorization": basic(target.username, target.password)}
    await post(ask, target.base(), body, login)


def _length(tags: list[str]) -> int:
    """Return the length of tags as Grafana counts it: that of an array of texts in JSON."""
    return 2 + sum(len(tag.encode()) + 3 for tag in tags)


_LONGEST_TAG: Final = 100
"""Characters of the text before a colon, and of that after it."""
_LONGEST_TAGS: Final = 500
"""Grafana's setting ``annotations.tags_length``."""
