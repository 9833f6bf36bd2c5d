"""Microsoft Teams: an Adaptive Card for Workflows, a MessageCard for webhooks of Office 365.

Schemas: adaptivecards.io/explorer, learn.microsoft.com "Create incoming webhooks with Workflows"
and "Legacy actionable message card reference".
"""

from typing import Final

from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Target, post
from toolkit.objects import Json

_OFFICE: Final = ".webhook.office.com"


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send a card."""
    if notice.updates_commit:
        return
    legacy = target.host.endswith(_OFFICE)
    await post(ask, target.base(), _message_card(notice) if legacy else _adaptive_card(notice))


def _adaptive_card(notice: Notice) -> Json:
    body: list[Json] = [
        {
            "type": "Container",
            "style": "attention" if notice.failed else "good",
            "bleed": True,
            "items": [
                {
                    "type": "TextBlock",
                    "text": notice.title,
                    "weight": "bolder",
                    "size": "large",
                    "wrap": True,
                }
            ],
        },
        {"type": "TextBlock", "text": notice.event.message, "wrap": True},
    ]
    facts = [{"title": key, "value": value} for key, value in sorted(notice.metadata.items())]
    if facts:
        body.append({"type": "FactSet", "facts": facts})
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "msteams": {"width": "Full"},
    }
    kind = "application/vnd.microsoft.card.adaptive"
    return {
        "type": "message",
        "attachments": [{"contentType": kind, "contentUrl": None, "content": card}],
    }


def _message_card(notice: Notice) -> Json:
    return {
        "@type": "MessageCard",
        "@context": "http://schema.org/extensions",
        "themeColor": "FF0000" if notice.failed else "0076D7",
        "summary": notice.title,
        "sections": [
            {
                "activityTitle": notice.event.message,
                "activitySubtitle": notice.title,
                "facts": [
                    {"name": key, "value": value} for key, value in sorted(notice.metadata.items())
                ],
            }
        ],
    }
