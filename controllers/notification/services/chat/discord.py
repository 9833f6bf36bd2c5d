"""Discord: webhooks that take Slack's messages at ``/slack``.

Schema: discord.com/developers/docs/resources/webhook, "Execute Slack-Compatible Webhook".
"""

from controllers.notification.events.matching import Notice
from controllers.notification.services.chat import slack
from controllers.notification.services.service import Ask, Target, post


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send a message with one attachment."""
    if notice.updates_commit:
        return
    address = target.base()
    if not address.endswith("/slack"):
        address += "/slack"
    await post(ask, address, {"icon_url": slack.ICON, **slack.message(notice, target)})
