"""Telegram: a message of a bot.

Schema: core.telegram.org/bots/api#sendmessage. The token is a part of the address.
"""

import html
from typing import Final

from controllers.notification.events.matching import Notice
from controllers.notification.services import texts
from controllers.notification.services.service import Ask, Target, post

_ADDRESS: Final = "https://api.telegram.org"


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send a message in HTML."""
    if notice.updates_commit:
        return
    mark = "💣" if notice.failed else "💡"
    said = html.escape(texts.indented(notice.event.message))
    lines = [f"{mark} <b>{html.escape(notice.title)}</b>", said]
    for key, value in sorted(notice.metadata.items()):
        said = html.escape(texts.on_one_line(value))
        lines.append(f"<b>{html.escape(texts.on_one_line(key))}</b>: {said}")
    body = {"chat_id": target.channel, "text": "\n".join(lines), "parse_mode": "HTML"}
    await post(ask, f"{target.base(_ADDRESS)}/bot{target.token}/sendMessage", body)
