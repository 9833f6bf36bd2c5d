"""Google Cloud Pub/Sub: the event as a message, with its metadata as attributes.

Schema: cloud.google.com/pubsub/docs/reference/rest/v1/projects.topics/publish. The address is the
id of the project, ``spec.channel`` the topic. The token is an access token
(``controllers.notification.sending.signing``).
"""

import base64
from urllib.parse import quote

import msgspec

from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Target, bearer, post
from toolkit.remote.cloud.streams import PUBSUB


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Publish the event."""
    if notice.updates_commit:
        return
    message = {
        "data": base64.b64encode(msgspec.json.encode(notice.event)).decode(),
        "attributes": {**target.headers, "delivery": notice.key},
    }
    await post(ask, url(target), {"messages": [message]}, bearer(target.token))


def url(target: Target) -> str:
    """Return where messages of the topic are published; no name leads to another operation."""
    project, topic = quote(target.address, safe=""), quote(target.channel, safe="")
    return f"{PUBSUB}/v1/projects/{project}/topics/{topic}:publish"
