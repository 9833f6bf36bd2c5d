"""What services take: the bodies of their public schemas, as strict as those are documented.

A field that a service does not know is refused here, so that a mistyped one is found. Where each
schema comes from is told in the module that speaks to the service.
"""

import html
import re
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Text = Annotated[str, Meta(min_length=1)]

MOST_BYTES = {
    "msteams": 24 << 10,  # 28 KiB as Teams stores it, about a sixth more than what is sent
    "googlechat": 32_000,
    "lark": 20 << 10,
    "matrix": 65_000,
    "pagerduty": 512 << 10,
    "sentry": 200_000,
    "azureeventhub": 256 << 10,
    "githubdispatch": 65_535,
}
"""Bytes of a body, of services that document them."""


class Strict(Struct, forbid_unknown_fields=True, kw_only=True):
    """A body without unknown fields."""


class SlackField(Strict):
    """A Slack field."""

    title: Text
    value: Text
    short: bool


class SlackAttachment(Strict):
    """A Slack attachment."""

    color: Literal["good", "danger"]
    author_name: Text
    text: Text
    fallback: Text
    mrkdwn_in: list[Literal["text"]]
    fields: list[SlackField]


class SlackMessage(Strict):
    """A Slack message."""

    attachments: Annotated[list[SlackAttachment], Meta(min_length=1, max_length=100)]
    channel: Text | None = None
    username: Text | None = None
    icon_url: Text | None = None


class DiscordField(Strict):
    """A field of an embed."""

    short: bool
    title: Annotated[str, Meta(min_length=1, max_length=256)]
    value: Annotated[str, Meta(min_length=1, max_length=1024)]


class DiscordAttachment(Strict):
    """An attachment that Discord makes an embed of."""

    color: Literal["good", "danger"]
    fallback: Text
    mrkdwn_in: list[Literal["text"]]
    author_name: Annotated[str, Meta(min_length=1, max_length=256)]
    text: Annotated[str, Meta(min_length=1, max_length=4096)]
    fields: Annotated[list[DiscordField], Meta(max_length=25)]

    def __post_init__(self) -> None:
        texts = (self.author_name, self.text, *(f.title + f.value for f in self.fields))
        if sum(map(len, texts)) > 6000:
            raise ValueError("the texts of an embed have more than 6000 characters")


class DiscordMessage(Strict):
    """A message in Slack's format for Discord."""

    icon_url: Text
    attachments: Annotated[list[DiscordAttachment], Meta(min_length=1, max_length=10)]
    channel: Text | None = None
    username: Text | None = None


class AdaptiveBody(Strict):
    """An Adaptive body."""

    type: Literal["Container", "TextBlock", "FactSet"]
    text: str | None = None
    wrap: bool | None = None
    weight: Literal["bolder"] | None = None
    size: Literal["large"] | None = None
    style: Literal["attention", "good"] | None = None
    bleed: bool | None = None
    items: "list[AdaptiveBody] | None" = None
    facts: list[dict[Literal["title", "value"], Text]] | None = None


class AdaptiveCard(Strict, rename={"schema": "$schema"}):
    """An Adaptive card."""

    schema: Literal["http://adaptivecards.io/schemas/adaptive-card.json"]
    type: Literal["AdaptiveCard"]
    version: Literal["1.4"]
    body: list[AdaptiveBody]
    msteams: dict[Literal["width"], Literal["Full"]]


class AdaptiveAttachment(Strict, rename="camel"):
    """An Adaptive attachment."""

    content_type: Literal["application/vnd.microsoft.card.adaptive"]
    content_url: None
    content: AdaptiveCard


class TeamsMessage(Strict):
    """A Teams message."""

    type: Literal["message"]
    attachments: Annotated[list[AdaptiveAttachment], Meta(min_length=1)]


class ChatWidget(Strict, rename="camel"):
    """A Chat widget."""

    text_paragraph: dict[Literal["text"], Text] | None = None
    decorated_text: dict[Literal["topLabel", "text", "wrapText"], str | bool] | None = None


class ChatSection(Strict):
    """A Chat section."""

    widgets: list[ChatWidget]
    header: str | None = None


class ChatCard(Strict):
    """A Chat card."""

    header: dict[Literal["title", "subtitle"], Text]
    sections: Annotated[list[ChatSection], Meta(min_length=1)]


class ChatCardWithId(Strict, rename="camel"):
    """A Chat card with id."""

    card_id: Text
    card: ChatCard


class GoogleChatMessage(Strict, rename={"cards": "cardsV2"}):
    """A Google chat message."""

    cards: Annotated[list[ChatCardWithId], Meta(min_length=1)]


class WebexMessage(Strict, rename={"room": "roomId"}):
    """A Webex message."""

    room: Text
    markdown: Annotated[str, Meta(min_length=1, max_length=7439)]


class TelegramMessage(Strict):
    """A Telegram message."""

    chat_id: Text
    text: Annotated[str, Meta(min_length=1)]
    parse_mode: Literal["HTML"]

    def __post_init__(self) -> None:
        shown = html.unescape(re.sub(r"</?b>", "", self.text))
        if len(shown.encode("utf-16-le")) > 2 * 4096:
            raise ValueError("the text has more than 4096 characters after parsing entities")


class LarkText(Strict):
    """A Lark text."""

    tag: Literal["plain_text", "lark_md"]
    content: Text


class LarkElement(Strict):
    """A Lark element."""

    tag: Literal["div"]
    text: LarkText


class LarkHeader(Strict):
    """A Lark header."""

    title: LarkText
    template: Literal["red", "turquoise"]


class LarkCard(Strict):
    """A Lark card."""

    config: dict[Literal["wide_screen_mode"], bool]
    header: LarkHeader
    elements: list[LarkElement]


class LarkMessage(Strict):
    """A Lark message."""

    msg_type: Literal["interactive"]
    card: LarkCard


class MatrixMessage(Strict):
    """A Matrix message."""

    msgtype: Literal["m.text"]
    body: Text


class OpsgenieAlert(Strict):
    """An Opsgenie alert."""

    message: Annotated[str, Meta(min_length=1, max_length=130)]
    alias: Annotated[str, Meta(min_length=1, max_length=512)]
    description: Annotated[str, Meta(max_length=15000)]
    details: dict[str, str]
    source: Annotated[str, Meta(max_length=100)]

    def __post_init__(self) -> None:
        if sum(len(key) + len(value) for key, value in self.details.items()) > 8000:
            raise ValueError("the details have more than 8000 characters")


class PagerDutyPayload(Strict):
    """A PagerDuty payload."""

    summary: Annotated[str, Meta(min_length=1, max_length=1024)]
    source: Text
    severity: Literal["critical", "error", "warning", "info"]
    timestamp: Text
    component: Text
    group: Text
    custom_details: dict[str, str]


class PagerDutyEvent(Strict):
    """A PagerDuty event."""

    routing_key: Text
    event_action: Literal["trigger", "acknowledge", "resolve"]
    dedup_key: Annotated[str, Meta(min_length=1, max_length=255)]
    payload: PagerDutyPayload


class SentryEvent(Strict):
    """A Sentry event."""

    event_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    timestamp: Text
    platform: Literal["other"]
    logger: Text
    level: Literal["fatal", "error", "warning", "info", "debug"]
    server_name: str
    environment: Text
    message: dict[Literal["formatted"], Text]
    tags: dict[str, Annotated[str, Meta(max_length=200)]]
    extra: dict[str, str]
    fingerprint: list[Text]


class DatadogEvent(Strict):
    """A Datadog event."""

    title: Annotated[str, Meta(min_length=1, max_length=500)]
    text: Annotated[str, Meta(min_length=1, max_length=4000)]
    alert_type: Literal["error", "warning", "info", "success"]
    aggregation_key: Annotated[str, Meta(max_length=100)]
    source_type_name: Text
    tags: list[Annotated[str, Meta(min_length=1, max_length=200)]]


class GrafanaAnnotation(Strict):
    """A Grafana annotation."""

    text: Annotated[str, Meta(min_length=1, max_length=65_535)]
    tags: list[Text]
    time: Annotated[int, Meta(gt=1_000_000_000_000)]

    def __post_init__(self) -> None:
        if any(len(part) > 100 for tag in self.tags for part in tag.split(":", 1)):
            raise ValueError("a tag has more than 100 characters before or after its colon")
        if 2 + sum(len(tag.encode()) + 3 for tag in self.tags) > 500:
            raise ValueError("the tags have more than 500 characters")


class AlertmanagerAlert(Strict, rename="camel"):
    """An Alertmanager alert."""

    labels: dict[Annotated[str, Meta(pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")], Text]
    annotations: dict[str, str]
    starts_at: Text
    ends_at: Text


class OtelValue(Strict, rename="camel"):
    """An Otel value."""

    string_value: Text


class OtelAttribute(Strict):
    """An Otel attribute."""

    key: Text
    value: OtelValue


class OtelSpan(Strict, rename="camel"):
    """An Otel span."""

    trace_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    span_id: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    name: Text
    kind: Literal[1]
    start_time_unix_nano: Annotated[str, Meta(pattern="^[0-9]{19}$")]
    end_time_unix_nano: Annotated[str, Meta(pattern="^[0-9]{19}$")]
    attributes: list[OtelAttribute]
    status: dict[Literal["code", "message"], int | str]


class OtelScope(Strict):
    """An Otel scope."""

    scope: dict[Literal["name"], Text]
    spans: list[OtelSpan]


class OtelResource(Strict, rename="camel"):
    """An Otel resource."""

    resource: dict[Literal["attributes"], list[OtelAttribute]]
    scope_spans: list[OtelScope]


class OtelRequest(Strict, rename="camel"):
    """An Otel request."""

    resource_spans: list[OtelResource]


class GitHubStatus(Strict):
    """A GitHub status."""

    state: Literal["error", "failure", "pending", "success"]
    context: Text
    description: Annotated[str, Meta(max_length=140)]


class GitLabStatus(Strict):
    """A GitLab status."""

    state: Literal["pending", "running", "success", "failed", "canceled", "skipped"]
    name: Text
    description: Annotated[str, Meta(max_length=255)]


class BitbucketStatus(Strict):
    """A Bitbucket status."""

    key: Annotated[str, Meta(min_length=1, max_length=40)]
    state: Literal["INPROGRESS", "SUCCESSFUL", "FAILED", "STOPPED"]
    name: Annotated[str, Meta(max_length=255)]
    description: str
    url: Annotated[str, Meta(pattern="^https?://")]


class BitbucketServerStatus(BitbucketStatus):
    """A Bitbucket server status."""

    parent: Text


class AzureStatus(Strict):
    """An Azure status."""

    state: Literal["error", "failed", "notApplicable", "notSet", "pending", "succeeded"]
    description: str
    context: dict[Literal["genre", "name"], Text]


class Dispatch(Strict):
    """A Dispatch."""

    event_type: Annotated[str, Meta(min_length=1, max_length=100)]
    client_payload: dict[str, Any]


class Comment(Strict):
    """A Comment."""

    body: Annotated[str, Meta(min_length=1, max_length=65_536)]
