"""Slack: an incoming webhook, or ``chat.postMessage`` with a token.

Schema: api.slack.com/reference/messaging/attachments and /methods/chat.postMessage. The texts are
those of Flux (notification-controller ``internal/notifier/slack.go``).
"""

from collections.abc import Callable
from typing import Final

from controllers.notification.events.matching import Notice
from controllers.notification.services.limits import cut
from controllers.notification.services.service import (
    Answer,
    Ask,
    Target,
    UnsuitableError,
    bearer,
    post,
)
from toolkit import untrusted
from toolkit.objects import Json
from toolkit.remote.errors import HttpError

COLORS: Final = {False: "good", True: "danger"}
ICON: Final = "https://avatars.githubusercontent.com/u/52158677"
_LONGEST: Final = 64 << 10
_LONGEST_TITLE: Final = 256
"""Characters in Discord."""


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send a message with one attachment."""
    if notice.updates_commit:
        return
    body = {"icon_url": ICON, **message(notice, target, _plain)}
    answer = await post(ask, target.base(), body, bearer(target.token))
    require_ok(answer)


def message(notice: Notice, target: Target, plain: Callable[[str], str] = str) -> Json:
    """Return the message, as Slack, Discord and Rocket.Chat take it.

    ``plain`` makes text of what would be markup.
    """
    attachment: Json = {
        "color": COLORS[notice.failed],
        "author_name": cut(notice.title, _LONGEST_TITLE),
        "text": plain(notice.event.message),
        "fallback": plain(notice.event.message),
        "mrkdwn_in": ["text"],
        "fields": [
            {"title": plain(key), "value": plain(value), "short": False}
            for key, value in sorted(notice.metadata.items())
        ],
    }
    body: Json = {"attachments": [attachment]}
    if target.channel:
        body["channel"] = target.channel
    if target.username:
        body["username"] = target.username
    return body


def _plain(text: str) -> str:
    """Return text without mentions and links (api.slack.com, "Escaping text")."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def require_ok(answer: Answer) -> None:
    """Require success in a response of status 200: with a token, Slack reports errors in the body.

    Raises:
        HttpError: Slack is busy.
        UnsuitableError: Slack rejects the message.
    """
    if not answer.body.startswith(b"{"):
        return
    try:
        said = untrusted.load_json(answer.body, dict[str, object], size=_LONGEST)
    except untrusted.UntrustedError:
        return
    if said.get("ok") is not False:
        return
    error = str(said.get("error"))
    word = error if error.replace("_", "").isalpha() and len(error) <= 40 else "an error"
    if word in {"ratelimited", "service_unavailable", "internal_error", "fatal_error"}:
        raise HttpError(f"Slack answered with {word}")
    raise UnsuitableError(f"Slack refused the message with {word}: correct the channel or token")
