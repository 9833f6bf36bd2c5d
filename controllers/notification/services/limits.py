"""The longest messages that services accept, and notices cut to them.

A service rejects a message that is too long, so the event would be lost. The longest messages are
those of failures. Each limit is below that of the service's documentation, which also counts the
text around the message.
"""

import bisect
import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec

from controllers.notification.events.event import LONGEST_MESSAGE, ORIGIN_REVISION, REVISION
from controllers.notification.events.matching import Notice
from toolkit.notification import metadata

_CUT: Final = "…"
_INDENT: Final = 4
"""What some services add to a line of a text (``texts.indented``)."""
_FIRST: Final = (REVISION, ORIGIN_REVISION, "summary", "commit", "commit_status", "change_request")
"""Metadata that is kept before the rest, most of which is about details."""


def characters(text: str) -> int:
    """Return the length of a text in code units of UTF-16; a service may count fewer."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2 + _INDENT * text.count("\n")


def octets(text: str) -> int:
    """Return the bytes of a text in JSON, with the characters that HTML and Markdown escape."""
    return len(msgspec.json.encode(html.escape(text))) + _INDENT * text.count("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The longest texts that a service accepts, measured by ``size``.

    ``total`` is for the message and all metadata, ``around`` is what the service's format adds to
    each of the metadata.
    """

    total: int
    size: Callable[[str], int] = characters
    message: int = LONGEST_MESSAGE
    key: int = metadata.LONGEST
    value: int = metadata.LONGEST
    entries: int = metadata.MOST
    metadata: int = 1 << 30
    around: int = 16


def fitted(notice: Notice, kind: str) -> Notice:
    """Return a notice that the service of this type of Provider accepts."""
    limits = LIMITS[kind]
    if limits is None:
        return notice
    kept, spent = _metadata(notice.metadata, limits)
    message = cut(notice.event.message, min(limits.message, limits.total - spent), size=limits.size)
    event = msgspec.structs.replace(notice.event, message=message, metadata=kept)
    return msgspec.structs.replace(notice, event=event, metadata=kept)


def cut(text: str, most: int, *, size: Callable[[str], int] = characters) -> str:
    """Return a text of at most this size; one that was cut ends with an ellipsis."""
    if size(text) <= most:
        return text
    left = most - size(_CUT)
    end = bisect.bisect_right(range(len(text)), left, key=lambda count: size(text[:count])) - 1
    return text[:end] + _CUT if end > 0 else ""


def _metadata(given: Mapping[str, str], limits: Limits) -> tuple[dict[str, str], int]:
    """Return the metadata that fit into half of the total, and their size."""
    first = {key: given[key] for key in _FIRST if key in given}
    left = most = min(limits.metadata, limits.total // 2)
    kept: dict[str, str] = {}
    for key, value in (first | dict(sorted(given.items()))).items():
        name = cut(key, limits.key, size=limits.size)
        text = cut(value, limits.value, size=limits.size)
        cost = limits.size(name) + limits.size(text) + limits.around
        if cost <= left and len(kept) < limits.entries:
            kept[name] = text
            left -= cost
    return kept, most - left


_SLACK: Final = Limits(total=50_000)
"""Slack documents no limit of attachments; it cuts a text after 40,000 characters."""
_COMMENT: Final = Limits(total=60_000)
"""A comment of GitHub has at most 65,536 characters."""

LIMITS: Final[Mapping[str, Limits | None]] = MappingProxyType(
    {
        # the whole event, or no text of it
        **dict.fromkeys(("generic", "generic-hmac", "alertmanager", "otel", "googlepubsub")),
        **dict.fromkeys(("github", "gitlab", "gitea", "bitbucket", "bitbucketserver")),
        "azuredevops": None,
        "slack": _SLACK,
        "rocket": _SLACK,
        # an embed: 6,000 characters in all
        "discord": Limits(total=5_500, message=4_096, key=256, value=1_024, entries=25),
        # 28 KiB, in an encoding that is longer than what is sent
        "msteams": Limits(total=20_000, size=octets, around=80),
        "googlechat": Limits(total=28_000, size=octets, around=80),  # 32,000 bytes
        "webex": Limits(total=6_800, size=octets),  # 7,439 bytes
        # 4,096 characters
        "telegram": Limits(total=3_600, message=2_600, value=200, entries=6),
        "lark": Limits(total=16_000, size=octets, around=80),  # 20 KiB
        "matrix": Limits(total=60_000, size=octets),  # 65,536 bytes
        "zulip": Limits(total=9_400),  # 10,000 characters
        # a description of 15,000 characters, details of 8,000
        "opsgenie": Limits(total=22_000, message=15_000, metadata=7_000),
        "pagerduty": Limits(total=400_000, size=octets),  # 512 KiB
        "sentry": Limits(total=180_000, size=octets, message=8_192),  # 200 kB
        # a text of 4,000 characters, tags of 200
        "datadog": Limits(total=20_000, message=4_000, key=50, value=140),
        # a text of 64 KiB; tags of 100 characters
        "grafana": Limits(total=60_000, size=octets, key=90, value=90),
        "nats": Limits(total=900_000, size=octets),  # 1 MiB by default
        "azureeventhub": Limits(total=200_000, size=octets),  # 256 KiB in the lowest tier
        "githubdispatch": Limits(total=56_000, size=octets),  # 64 KiB
        "githubpullrequestcomment": _COMMENT,
        "gitlabmergerequestcomment": _COMMENT,
        "giteapullrequestcomment": _COMMENT,
    }
)
"""The limits of each type of Provider; None if a service has none, or does not get the texts."""
