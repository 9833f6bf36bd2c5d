"""Rocket.Chat: incoming webhooks with Slack's attachments.

Schema: docs.rocket.chat, "Create a new incoming webhook".
"""

from controllers.notification.events.matching import Notice
from controllers.notification.services.chat import slack
from controllers.notification.services.service import Ask, Target, post


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send a message with one attachment."""
    if not notice.updates_commit:
        await post(ask, target.base(), slack.message(notice, target))
