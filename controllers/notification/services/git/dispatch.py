"""GitHub: an event that starts workflows.

Schema: docs.github.com/rest/repos/repos#create-a-repository-dispatch-event.
"""

import msgspec

from controllers.notification.events.matching import Notice
from controllers.notification.services.git import commit, github
from controllers.notification.services.service import Ask, Target, post


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Dispatch the event; its type is ``<kind>/<name>.<namespace>``, as in Flux."""
    if notice.updates_commit:
        return
    repository = commit.repository(target)
    about = notice.event.involved_object
    body = {
        "event_type": f"{about.kind}/{about.name}.{about.namespace}"[:100],
        "client_payload": msgspec.to_builtins(notice.event),
    }
    url = f"{github.api(repository)}/repos/{repository.path}/dispatches"
    await post(ask, url, body, github.login(target))
