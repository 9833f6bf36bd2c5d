"""What each type of Provider must be told: the table that admission and delivery share.

A type that is not in ``DEMANDS`` is not implemented, and is refused. Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from yarl import URL

from crds.notification import ProviderSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a type needs. The address and the token may come from the Secret.

    ``address`` is whether there is no default address, ``schemes`` are what it may begin with.
    ``plain`` types take an address that is not a URL.
    """

    address: bool = True
    channel: bool = False
    secret: bool = False
    plain: bool = False
    schemes: tuple[str, ...] = ("http", "https")
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A field that is missing or wrong, and what to write."""

    field: str
    why: str
    value: str = ""


_GIT: Final = Demand(secret=True, hint="https://<host>/<owner>/<repository>")
DEMANDS: Final[Mapping[str, Demand]] = MappingProxyType(
    {
        # events as they are
        "generic": Demand(hint="https://<host>/<path>"),
        "generic-hmac": Demand(secret=True, hint="https://<host>/<path>"),
        # chat
        "slack": Demand(hint="https://hooks.slack.com/services/<path>"),
        "discord": Demand(hint="https://discord.com/api/webhooks/<id>/<token>"),
        "rocket": Demand(hint="https://<host>/hooks/<path>"),
        "msteams": Demand(hint="the address that Workflows shows"),
        "googlechat": Demand(hint="https://chat.googleapis.com/v1/spaces/<path>"),
        "webex": Demand(address=False, channel=True, secret=True),
        "telegram": Demand(address=False, channel=True, secret=True),
        "lark": Demand(hint="https://open.larksuite.com/open-apis/bot/v2/hook/<path>"),
        "matrix": Demand(channel=True, secret=True, hint="https://<host>"),
        "zulip": Demand(channel=True, secret=True, hint="https://<organization>.zulipchat.com"),
        # paging and dashboards
        "opsgenie": Demand(address=False, secret=True),
        "pagerduty": Demand(address=False, channel=True),
        "sentry": Demand(hint="https://<key>@<host>/<project>"),
        "datadog": Demand(secret=True, hint="https://api.datadoghq.com"),
        "grafana": Demand(hint="https://<host>/api/annotations"),
        "alertmanager": Demand(hint="https://<host>/api/v2/alerts/"),
        "otel": Demand(hint="https://<host>:4318/v1/traces"),
        # streams
        "nats": Demand(channel=True, schemes=("nats", "tls"), hint="nats://<host>:4222"),
        "azureeventhub": Demand(
            plain=True, hint="Endpoint=sb://<namespace>.servicebus.windows.net"
        ),
        "googlepubsub": Demand(plain=True, channel=True, secret=True, hint="the id of the project"),
        # Git hosting
        "github": _GIT,
        "gitlab": _GIT,
        "gitea": _GIT,
        "bitbucket": _GIT,
        "bitbucketserver": _GIT,
        "azuredevops": _GIT,
        "githubdispatch": _GIT,
        "githubpullrequestcomment": _GIT,
        "gitlabmergerequestcomment": _GIT,
        "giteapullrequestcomment": _GIT,
    }
)


def problems(spec: ProviderSpec) -> Iterator[Problem]:
    """Yield what is missing or wrong, whatever the Secret holds."""
    demand = DEMANDS.get(spec.type)
    if demand is None:
        known = ", ".join(sorted(DEMANDS))
        yield Problem("spec.type", f"it is not implemented: use one of {known}", spec.type)
        return
    if demand.address and not spec.address and spec.secret_ref is None:
        yield Problem("spec.address", f"'{spec.type}' needs it: write {demand.hint}")
    if demand.channel and not spec.channel:
        yield Problem("spec.channel", f"'{spec.type}' needs it")
    if demand.secret and spec.secret_ref is None:
        yield Problem("spec.secretRef", f"'{spec.type}' needs a Secret with a token")
    if spec.service_account_name:
        why = "signing in by workload identity is not implemented: name a Secret in spec.secretRef"
        yield Problem("spec.serviceAccountName", why, spec.service_account_name)
    if spec.address and not demand.plain and (why := unusable(spec.address, spec.type)):
        yield Problem("spec.address", f"{why}: write {demand.hint or 'https://<host>'}")


def unusable(address: str, kind: str) -> str:
    """Return why an address is not one of the type, nothing if it is; it is not quoted."""
    schemes = DEMANDS.get(kind, _WEB).schemes
    if "nats" in schemes and "://" not in address:
        address = f"nats://{address}"  # as NATS' own clients take it
    try:
        url = URL(address, encoded=True)
        usable = url.scheme in schemes and bool(url.host) and url.port != 0
    except ValueError:
        usable = False
    if not usable or not address.isascii() or not address.isprintable() or " " in address:
        return f"it is not a URL that begins with {' or '.join(f'{each}://' for each in schemes)}"
    # a DSN of Sentry holds a public key as its user
    if kind != "sentry" and (url.user is not None or url.password is not None):
        return "it holds credentials, which belong into the Secret"
    return ""


_WEB: Final = Demand()
