"""Google Chat: a card for an incoming webhook.

Schema: developers.google.com/workspace/chat/api/reference/rest/v1/cards (``cardsV2``).
"""

from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Target, post


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send a card."""
    if notice.updates_commit:
        return
    color = "#ff0000" if notice.failed else "#00aa00"
    about = notice.event.involved_object
    sections: list[dict[str, object]] = [
        {"widgets": [{"textParagraph": {"text": _plain(notice.event.message)}}]}
    ]
    rows = [
        {"decoratedText": {"topLabel": key, "text": _plain(value), "wrapText": True}}
        for key, value in sorted(notice.metadata.items())
    ]
    if rows:
        sections.append({"widgets": rows})
    header = {
        "title": f"{about.kind}/{about.name}.{about.namespace}",
        "subtitle": about.kind,
    }
    word = _plain(notice.event.reason)
    sections[0]["header"] = f'<font color="{color}">{word}</font>'
    card = {"header": header, "sections": sections}
    # the query of the address holds its key
    await post(ask, target.address, {"cardsV2": [{"cardId": "event", "card": card}]})


def _plain(text: str) -> str:
    """Return text that Chat does not take for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
