"""The fields that each type of Provider needs. Admission and delivery share this table.

A type that is not in ``DEMANDS`` is not implemented and is refused. Pure.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from crds.notification import ProviderSpec
from toolkit.remote import webaddress


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The fields of one type. Address and token may come from the Secret.

    - ``address``: the type has no default address; ``schemes`` are the allowed beginnings.
    - ``plain``: the address is not a URL.
    - ``account``: the type can authenticate as a ServiceAccount.
    - ``app``: the type can authenticate as a GitHub App.
    - ``login``: the type takes user and password, which may be part of an address in the Secret.
    """

    address: bool = True
    channel: bool = False
    secret: bool = False
    plain: bool = False
    account: bool = False
    app: bool = False
    login: bool = False
    schemes: tuple[str, ...] = ("http", "https")
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A field that is missing or wrong, and what to write."""

    field: str
    why: str
    value: str = ""


_HINT: Final = "https://<host>/<owner>/<repository>"
_GIT: Final = Demand(secret=True, hint=_HINT)
_GITHUB: Final = Demand(secret=True, app=True, hint=_HINT)
DEMANDS: Final[Mapping[str, Demand]] = MappingProxyType(
    {
        # events as they are
        "generic": Demand(login=True, hint="https://<host>/<path>"),
        "generic-hmac": Demand(secret=True, login=True, hint="https://<host>/<path>"),
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
        "grafana": Demand(login=True, hint="https://<host>/api/annotations"),
        "alertmanager": Demand(login=True, hint="https://<host>/api/v2/alerts/"),
        "otel": Demand(login=True, hint="https://<host>:4318/v1/traces"),
        # streams
        "nats": Demand(
            channel=True, login=True, schemes=("nats", "tls"), hint="nats://<host>:4222"
        ),
        "azureeventhub": Demand(
            plain=True, account=True, hint="the name of the hub, or a connection string"
        ),
        "googlepubsub": Demand(
            plain=True, channel=True, secret=True, account=True, hint="the id of the project"
        ),
        # Git hosting
        "github": _GITHUB,
        "gitlab": _GIT,
        "gitea": _GIT,
        "bitbucket": _GIT,
        "bitbucketserver": _GIT,
        "azuredevops": Demand(
            secret=True,
            account=True,
            hint="https://dev.azure.com/<organization>/<project>/_git/<repository>",
        ),
        "githubdispatch": _GITHUB,
        "githubpullrequestcomment": _GITHUB,
        "gitlabmergerequestcomment": _GIT,
        "giteapullrequestcomment": _GIT,
    }
)


def problems(spec: ProviderSpec) -> Iterator[Problem]:
    """Yield the problems of a spec that do not depend on the content of the Secret."""
    demand = DEMANDS.get(spec.type)
    if demand is None:
        known = ", ".join(sorted(DEMANDS))
        yield Problem("spec.type", f"it is not implemented: use one of {known}", spec.type)
        return
    if demand.address and not spec.address and spec.secret_ref is None:
        yield Problem("spec.address", f"'{spec.type}' needs it: write {demand.hint}")
    if demand.channel and not spec.channel:
        yield Problem("spec.channel", f"'{spec.type}' needs it")
    if demand.secret and not demand.account and spec.secret_ref is None:
        yield Problem("spec.secretRef", f"'{spec.type}' needs a Secret with a token")
    if spec.service_account_name and (why := _no_account(spec, demand)):
        yield Problem("spec.serviceAccountName", why, spec.service_account_name)
    if spec.address and not demand.plain and (why := unusable(spec.address, spec.type)):
        yield Problem("spec.address", f"{why}: write {demand.hint or 'https://<host>'}")


def _no_account(spec: ProviderSpec, demand: Demand) -> str:
    """Return why a Provider cannot authenticate as a ServiceAccount; empty if it can."""
    if not demand.account:
        known = ", ".join(sorted(name for name, each in DEMANDS.items() if each.account))
        return (
            f"'{spec.type}' does not sign in as a ServiceAccount, only {known} do: remove it, and"
            " name a Secret in spec.secretRef"
        )
    if has_key(spec.address):
        return "the connection string in spec.address has a key: remove one of the two"
    return ""


def has_key(address: str) -> bool:
    """Tell whether an address is a connection string that signs in by itself."""
    return "SharedAccessKey" in address


def unsigned(kind: str, given: Collection[str]) -> str:
    """Return the credentials that a Secret lacks; empty if it has all that are needed.

    ``given`` are the keys of the Secret that have a value.
    """
    demand = DEMANDS.get(kind, _WEB)
    if not demand.secret or {"token", "password"} & set(given):
        return ""
    if APP in given:
        apps = ", ".join(sorted(name for name, each in DEMANDS.items() if each.app))
        return "" if demand.app else f"'{kind}' does not sign in as a GitHub App, only {apps} do"
    if demand.account:
        return ""
    more = ", or the keys of a GitHub App" if demand.app else ""
    return f"'{kind}' needs a token: write it as 'token' into the Secret{more}"


APP: Final = "githubAppID"
"""A Secret with this key contains a GitHub App."""


@dataclass(frozen=True, slots=True)
class Login:
    """An address without user and password, and the user and password that were part of it."""

    address: str
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)


def login(address: str, kind: str) -> Login:
    """Take user and password out of an address from a Secret, where the type takes them.

    Flux's examples for Alertmanager and NATS have them there.
    """
    if not DEMANDS.get(kind, _WEB).login or "@" not in address:
        return Login(address)
    try:
        url = webaddress.read(address, encoded=True)
        if url.user is None:
            return Login(address)
        return Login(str(url.with_user(None)), url.user, url.password or "")
    except ValueError:
        return Login(address)


def unusable(address: str, kind: str) -> str:
    """Return why an address is invalid for a type; empty if it is valid. It is not quoted."""
    schemes = DEMANDS.get(kind, _WEB).schemes
    if "nats" in schemes and "://" not in address:
        address = f"nats://{address}"  # as NATS' own clients take it
    try:
        url = webaddress.read(address, encoded=True)
        usable = url.scheme in schemes and bool(url.host) and url.port != 0
    except ValueError:
        usable = False
    if not usable or not address.isascii() or not address.isprintable() or " " in address:
        return f"it is not a URL that begins with {' or '.join(f'{each}://' for each in schemes)}"
    # a DSN of Sentry holds a public key as its user
    if kind != "sentry" and (url.user is not None or url.password is not None):
        return "it holds credentials, which belong into the Secret as 'username' and 'password'"
    return ""


_WEB: Final = Demand()
