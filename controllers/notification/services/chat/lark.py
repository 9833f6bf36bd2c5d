"""Lark and Feishu: a card for a custom bot.

Schema: open.larksuite.com/document, "Custom bot usage guide" and "Message card structure".
"""

from typing import Final

from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Target, UnsuitableError, post
from toolkit import untrusted
from toolkit.objects import Json
from toolkit.remote.errors import HttpError

_LONGEST: Final = 64 << 10
_BUSY: Final = frozenset({9499, 11232, 11233})
"""Codes for too many messages."""


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send a card."""
    if notice.updates_commit:
        return
    answer = await post(ask, target.base(), _card(notice))
    try:
        said = untrusted.load_json(answer.body, dict[str, object], size=_LONGEST)
    except untrusted.UntrustedError:
        return
    code = said.get("code") or 0  # errors come with status 200
    if code in _BUSY:
        raise HttpError(f"Lark answered with code {code}")
    if isinstance(code, int) and code:
        raise UnsuitableError(f"Lark refused the message with code {code}: correct the address")


def _card(notice: Notice) -> Json:
    mark = "💣" if notice.failed else "💡"
    texts = [notice.event.message]
    texts += [f"**{key}**: {value}" for key, value in sorted(notice.metadata.items())]
    return {
        "msg_type": "interactive",
        "card": {
            "config": {"wide_screen_mode": True},
            "header": {
                "title": {"tag": "plain_text", "content": f"{mark} {notice.title}"},
                "template": "red" if notice.failed else "turquoise",
            },
            "elements": [
                {"tag": "div", "text": {"tag": "lark_md", "content": text}} for text in texts
            ],
        },
    }
