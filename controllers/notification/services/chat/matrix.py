"""Matrix: a message in a room.

Schema: spec.matrix.org/v1.10/client-server-api, "PUT …/rooms/{roomId}/send/{eventType}/{txnId}". A
transaction that is sent again is not shown again.
"""

from urllib.parse import quote

from controllers.notification.events.matching import Notice
from controllers.notification.services import texts
from controllers.notification.services.service import Ask, Target, bearer, post


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send a message."""
    if notice.updates_commit:
        return
    mark = "💣" if notice.failed else "💡"
    lines = [f"{mark} {notice.title}", texts.indented(notice.event.message)]
    facts = sorted(notice.metadata.items())
    lines += [f"- {texts.on_one_line(key)}: {texts.indented(value)}" for key, value in facts]
    room = quote(target.channel, safe="")
    url = f"{target.base()}/_matrix/client/v3/rooms/{room}/send/m.room.message/{notice.key}"
    body = {"msgtype": "m.text", "body": "\n".join(lines)}
    await post(ask, url, body, bearer(target.token), method="PUT")
