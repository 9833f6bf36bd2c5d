"""The flags for Alerts, Providers and Receivers, as in ``flux create alert`` and so on."""

from typing import Any, Final, get_args

import click

from cli import errors
from cli.creating import flags, objects
from cli.creating.flags import Flag, Values
from cli.creating.objects import Row
from crds import ALERT, PROVIDER, RECEIVER
from crds.notification import SourceKind
from crds.notification_receiver import ReceiverType
from toolkit.notification.demands import DEMANDS
from toolkit.objects import Json

_KINDS: Final = get_args(SourceKind)


def _selectors(words: tuple[str, ...], flag: str) -> list[Json]:
    """Return the selectors of ``KIND/NAME[.NAMESPACE]``.

    Raises:
        UsageError: there is none, or one is invalid.
    """
    found = flags.words(words)
    if not found:
        raise errors.UsageError(f"--{flag} is required: write KIND/NAME, or KIND/* for all")
    return [objects.reference(word, _KINDS, flag=flag) for word in found]


def _alert(values: Values, spec: Json) -> None:
    spec["eventSources"] = _selectors(values["event_source"], "event-source")


def _receiver(values: Values, spec: Json) -> None:
    spec["resources"] = _selectors(values["resource"], "resource")


def _choice(words: Any) -> click.Choice[str]:
    return click.Choice(tuple(words))


ALERT_ROW: Final = Row(
    kind=ALERT,
    example="penstock create alert apps --provider-ref=slack --event-severity=info \\\n"
    "  --event-source=Kustomization/* --export",
    flags=(
        Flag(
            name="provider-ref",
            at="providerRef",
            required=True,
            shape=flags.named,
            help="Provider to send events to.",
        ),
        Flag(
            name="event-severity",
            at="eventSeverity",
            type=_choice(("info", "error")),
            help="Minimum severity of the events: info or error.",
        ),
        Flag(name="event-source", several=True, help="KIND/NAME[.NAMESPACE] whose events to send."),
        Flag(name="summary", at="eventMetadata.summary", help="Text to add to the events."),
    ),
    finish=_alert,
)
PROVIDER_ROW: Final = Row(
    kind=PROVIDER,
    example="penstock create alert-provider slack --type=slack --channel=general \\\n"
    "  --secret-ref=slack --export",
    flags=(
        Flag(
            name="type",
            at="type",
            required=True,
            type=_choice(DEMANDS),
            help="Type of the service, such as slack.",
        ),
        Flag(name="channel", at="channel", help="Channel to send to."),
        Flag(name="username", at="username", help="Name that the service shows as the sender."),
        Flag(name="address", at="address", help="Address of the service."),
        flags.secret_ref("Secret with the address, the token or both."),
    ),
)
RECEIVER_ROW: Final = Row(
    kind=RECEIVER,
    example="penstock create receiver apps --type=github --secret-ref=hook \\\n"
    "  --event=ping,push --resource=GitRepository/apps --export",
    flags=(
        Flag(
            name="type",
            at="type",
            required=True,
            type=_choice(get_args(ReceiverType)),
            help="Type of the sender, such as github.",
        ),
        flags.secret_ref("Secret with the token that senders share."),
        Flag(
            name="event",
            at="events",
            several=True,
            shape=flags.words,
            help="Events that cause a reconciliation.",
        ),
        Flag(name="resource", several=True, help="KIND/NAME[.NAMESPACE] to reconcile."),
    ),
    finish=_receiver,
)
