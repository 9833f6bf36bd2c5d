"""Zulip: a message in a topic of a channel.

Schema: zulip.com/api/send-message. ``spec.channel`` is ``<channel>/<topic>``, as in Flux.
"""

from urllib.parse import urlencode

from controllers.notification.events.matching import Notice
from controllers.notification.services import texts
from controllers.notification.services.service import Ask, Target, UnsuitableError
from toolkit.remote.proxy import basic


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send a message in Markdown."""
    if notice.updates_commit:
        return
    channel, slash, topic = target.channel.partition("/")
    if not (channel and slash and topic):
        raise UnsuitableError("spec.channel is not <channel>/<topic>: write it like that")
    mark = ":bomb:" if notice.failed else ":light_bulb:"
    lines = [f"{mark} **{notice.title}**", texts.block(notice.event.message)]
    facts = sorted(notice.metadata.items())
    lines += [f"* {texts.on_one_line(key)}: {texts.on_one_line(value)}" for key, value in facts]
    form = {
        "type": "channel",
        "to": channel,
        "topic": topic,
        "content": "\n".join(lines),
    }
    await ask(
        "POST",
        f"{target.base()}/api/v1/messages",
        body=urlencode(form).encode(),
        headers={
            "Content-Type": "application/x-www-form-urlencoded",
            "Authorization": basic(target.username, target.password or target.token),
        },
    )
