"""Webex: a message in a room.

Schema: developer.webex.com/messaging/docs/api/v1/messages/create-a-message.
"""

from typing import Final

from controllers.notification.events.matching import Notice
from controllers.notification.services import texts
from controllers.notification.services.service import Ask, Target, bearer, post

_ADDRESS: Final = "https://webexapis.com/v1/messages"


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send a message in Markdown."""
    if notice.updates_commit:
        return
    mark = "💣" if notice.failed else "💡"
    lines = [f"{mark} **{notice.title}**  ", f"{texts.block(notice.event.message)}  "]
    facts = sorted(notice.metadata.items())
    lines += [
        f">**{texts.on_one_line(key)}**: {texts.on_one_line(value)}  " for key, value in facts
    ]
    body = {"roomId": target.channel, "markdown": "\n".join(lines)}
    await post(ask, target.base(_ADDRESS), body, bearer(target.token))
