"""Which Alerts an event matches, and what they make of it. Pure.

As Flux (notification-controller ``internal/server/event_handlers.go``): sources, severity, then the
lists of patterns. ``Notice`` is what a service is told.
"""

import math
import re
import time
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from controllers.notification.events.event import COMMIT_STATUS, PREFIX, TOKEN, Event
from crds.notification import Alert, ObjectSelector
from toolkit import regexp
from toolkit.notification.metadata import bounded

EVERY: Final = "*"
_INTERNAL: Final = frozenset({TOKEN, "checksum", "digest"})
"""Metadata that means nothing to people."""
_KNOWN: Final = frozenset({"account", "author", "changes", "verified"})
"""Metadata that tells who deployed what, and whose signature was verified."""
MASK: Final = "*****"
_SECRETS: Final = (
    # user and password in a URL; headers and parameters that hold credentials; well-known tokens
    (re.compile(r"(?i)([a-z][a-z0-9+.-]{1,20}://)[^/\s:@]{1,200}:[^/\s@]{1,500}@"), rf"\1{MASK}@"),
    (re.compile(r"(?i)\b(bearer|basic|genie_?key)(\s+)[a-z0-9+/=._~-]{8,}"), rf"\1\2{MASK}"),
    (
        re.compile(r"(?i)\b(password|passwd|secret|token|api_?key|sig|signature)(=)\S+"),
        rf"\1\2{MASK}",
    ),
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-)[A-Za-z0-9_-]{10,}"), MASK),
)


class TooLongError(Exception):
    """The patterns of an Alert take too long."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What a service is told: an event in the words of an Alert."""

    event: Event
    metadata: dict[str, str]
    alert: str
    key: str
    """The same for each attempt to deliver it, and for no other event."""

    @property
    def failed(self) -> bool:
        """Tell whether something went wrong."""
        return self.event.severity == "error"

    @property
    def updates_commit(self) -> bool:
        """Tell whether it only tells the state of a commit, which chats need not hear."""
        return self.metadata.get(COMMIT_STATUS) == "update"

    @property
    def title(self) -> str:
        """Return the object in words, as Flux writes it: ``kustomization/apps.flux-system``."""
        about = self.event.involved_object
        return f"{about.kind.lower()}/{about.name}.{about.namespace}"


def selects(each: ObjectSelector, own: str, event: Event) -> bool:
    """Tell whether a selector of an Alert in the namespace ``own`` means the object of an event.

    Labels are not looked at: ``needs_labels`` tells whether they must be.
    """
    about = event.involved_object
    return (
        each.kind == about.kind
        and (each.namespace or own) == about.namespace
        and each.name in {EVERY, about.name}
    )


def needs_labels(each: ObjectSelector) -> bool:
    """Tell whether a selector also asks for labels."""
    return each.name == EVERY and bool(each.match_labels)


def has_labels(each: ObjectSelector, labels: Mapping[str, str]) -> bool:
    """Tell whether an object has the labels of a selector."""
    return all(labels.get(key) == value for key, value in each.match_labels.items())


def wants(alert: Alert, event: Event, *, until: float = math.inf) -> bool:
    """Tell whether an Alert wants an event of an object that it selects.

    Raises:
        TooLongError: this is not known at the moment ``until`` of the thread's CPU time.
    """
    spec = alert.spec
    if event.severity == "trace" or (spec.event_severity == "error" and event.severity != "error"):
        return False
    if spec.inclusion_list and not _any(spec.inclusion_list, event.message, until):
        return False
    return not _any(spec.exclusion_list, event.message, until)


def hidden(event: Event) -> Event:
    """Return an event without what looks like a secret: what services may be told of it."""
    metadata = {key: masked(value) for key, value in (event.metadata or {}).items()}
    return msgspec.structs.replace(event, message=masked(event.message), metadata=metadata)


def notice(alert: Alert, event: Event, key: str) -> Notice:
    """Return what the service of the Alert's Provider is told; ``event`` is ``hidden``."""
    metadata = combined(alert, event)
    told = msgspec.structs.replace(event, metadata=metadata)
    name = f"{alert.metadata.namespace}/{alert.metadata.name}"
    return Notice(event=told, metadata=metadata, alert=name, key=key)


def combined(alert: Alert, event: Event) -> dict[str, str]:
    """Return the metadata of both, without the prefixes of their keys.

    What a controller says wins over what annotations of the object say, and that over the Alert.
    What only a controller can know, nobody else says.
    """
    said = event.metadata or {}
    own = f"{event.involved_object.group}/"
    asked = {"summary": alert.spec.summary, **bounded(alert.spec.event_metadata)}
    found = {key: masked(value) for key, value in asked.items()}
    found |= _below(PREFIX, said)
    found = {key: value for key, value in found.items() if key not in _KNOWN} | _below(own, said)
    return {key: value for key, value in found.items() if key not in _INTERNAL and value}


def _below(prefix: str, said: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(prefix): v for key, v in said.items() if key.startswith(prefix)}


def masked(text: str) -> str:
    """Return a text without what looks like a secret."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def _any(patterns: Iterable[str], text: str, until: float) -> bool:
    for pattern in patterns:
        if time.thread_time() > until:
            raise TooLongError
        try:
            if regexp.found(pattern, text):
                return True
        except ValueError:  # refused at admission; one that got in matches nothing
            continue
    return False
