"""``notification.toolkit.fluxcd.io/v1``: Provider, where events are sent, and Alert, which ones.

Fields, patterns, defaults and rules are those of Flux's notification-controller in v1beta3, the
newest version that Flux has released. Receiver is in ``crds.notification_receiver``.
"""

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from msgspec import Meta, Struct, field

from crds import meta, unwritten
from crds.rules import Rule

GROUP: Final = "notification.toolkit.fluxcd.io"

SourceKind: TypeAlias = Literal[
    "Bucket",
    "GitRepository",
    "Kustomization",
    "HelmRelease",
    "HelmChart",
    "HelmRepository",
    "ImageRepository",
    "ImagePolicy",
    "ImageUpdateAutomation",
    "OCIRepository",
    "ArtifactGenerator",
    "ExternalArtifact",
    "FluxInstance",
    "ResourceSet",
    "ResourceSetInputProvider",
]
OPERATOR_GROUP: Final = "fluxcd.controlplane.io"
OPERATOR_VERSION: Final = "v1"
OPERATOR_KINDS: Final = {
    "FluxInstance": "fluxinstances",
    "ResourceSet": "resourcesets",
    "ResourceSetInputProvider": "resourcesetinputproviders",
}
"""Plurals of the kinds of ``SourceKind`` that the Flux operator serves, where it is installed."""
Severity: TypeAlias = Literal["info", "error"]
ProviderType: TypeAlias = Literal[
    "slack",
    "discord",
    "msteams",
    "rocket",
    "generic",
    "generic-hmac",
    "github",
    "gitlab",
    "gitea",
    "giteapullrequestcomment",
    "bitbucketserver",
    "bitbucket",
    "azuredevops",
    "googlechat",
    "googlepubsub",
    "webex",
    "sentry",
    "azureeventhub",
    "telegram",
    "lark",
    "matrix",
    "opsgenie",
    "alertmanager",
    "grafana",
    "githubdispatch",
    "githubpullrequestcomment",
    "gitlabmergerequestcomment",
    "pagerduty",
    "datadog",
    "nats",
    "zulip",
    "otel",
]
COMMIT_STATUS: Final = (
    "github",
    "gitlab",
    "gitea",
    "bitbucketserver",
    "bitbucket",
    "azuredevops",
)
"""Types that set the status of a commit."""
_WITH_EXPRESSION: Final = " || ".join(f"self.type == '{each}'" for each in COMMIT_STATUS)

Parameter: TypeAlias = Annotated[str, Meta(max_length=2048)]


class ObjectSelector(meta.ApiStruct, frozen=True, kw_only=True):
    """Objects of one kind in one namespace."""

    api_version: str = ""
    """API version; has no effect."""
    kind: SourceKind
    """Kind of the objects."""
    name: Annotated[str, Meta(min_length=1, max_length=253)]
    """Name of the object, or `*` for all."""
    namespace: Annotated[str, Meta(min_length=1, max_length=253)] = ""
    """Namespace of the objects. Defaults to that of the object that refers to them; another one
    needs a ReferenceGrant there."""
    match_labels: dict[str, str] = field(default_factory=dict)
    """Labels that the objects have. Needs the name `*`."""


class ProviderSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Which service to send events to, and how to sign in."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"{_WITH_EXPRESSION} || !has(self.commitStatusExpr)",
            "spec.commitStatusExpr is only supported for the 'github', 'gitlab', 'gitea', "
            "'bitbucketserver', 'bitbucket', 'azuredevops' provider types",
            field=".commitStatusExpr",
        ),
    )

    type: ProviderType
    """Which service it is."""
    interval: meta.Duration = ""
    """Deprecated: accepted and without effect."""
    channel: Parameter = ""
    """Channel, room, topic or routing key to send to, as the service calls it."""
    username: Parameter = ""
    """Name to send under, where the service shows one."""
    address: Parameter = ""
    """Address of the service. The key `address` of the Secret takes precedence."""
    timeout: meta.ShortDuration = ""
    """How long one request may take. Defaults to 15s."""
    proxy: Annotated[str, Meta(max_length=2048, pattern=r"^(http|https)://.*$")] = ""
    """Deprecated: address of an HTTP proxy. Use proxySecretRef."""
    proxy_secret_ref: meta.LocalObjectReference | None = None
    """Secret with the `address` of a proxy, and `username` and `password` where it asks for
    them."""
    secret_ref: meta.LocalObjectReference | None = None
    """Secret with what the service asks for: `address`, `token`, `username`, `password`,
    `headers`."""
    cert_secret_ref: meta.LocalObjectReference | None = None
    """Secret with `ca.crt` to trust, and `tls.crt` and `tls.key` to show, where the service needs
    them."""
    service_account_name: str = ""
    """ServiceAccount whose workload identity signs in at a cloud."""
    suspend: bool = False
    """Send nothing. Events of this time are not sent later."""
    commit_status_expr: str = ""
    """CEL expression that gives the id of a commit status, from `event`, `alert` and
    `provider`."""

    @property
    def timeout_seconds(self) -> float:
        """Return the deadline of one request."""
        return meta.timeout_seconds(self.timeout) if self.timeout else 15.0


class ProviderStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """How sending goes."""

    observed_generation: meta.Count = 0
    """Generation of the spec that this status describes."""
    conditions: meta.Conditions = field(default_factory=list)
    """`Delivering`: whether the service took the last event."""


class Provider(Struct, frozen=True, kw_only=True, rename="camel"):
    """A service that events are sent to."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "Provider"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ProviderSpec = unwritten.spec(ProviderSpec)
    status: ProviderStatus = ProviderStatus()


class AlertSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Which events are sent, and where."""

    provider_ref: meta.LocalObjectReference
    """Provider in the same namespace to send events to."""
    event_severity: Severity = "info"
    """Least severity to send. `error` leaves out what succeeded."""
    event_sources: list[ObjectSelector]
    """Objects whose events are sent."""
    event_metadata: dict[str, str] = field(default_factory=dict)
    """Metadata to add to each event. What the event brings itself takes precedence."""
    inclusion_list: list[str] = field(default_factory=list)
    """Regular expressions (RE2): send only events whose message matches one of them."""
    exclusion_list: list[str] = field(default_factory=list)
    """Regular expressions (RE2): leave out events whose message matches one of them."""
    summary: Annotated[str, Meta(max_length=255)] = ""
    """Deprecated: description of the impact. Use `summary` in eventMetadata."""
    suspend: bool = False
    """Send nothing. Events of this time are not sent later."""


class AlertStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """Nothing: an Alert is not reconciled. Kept for versions that had conditions."""

    observed_generation: meta.Count = 0
    """Generation of the spec that this status describes."""
    conditions: meta.Conditions = field(default_factory=list)
    """Conditions that an older controller wrote."""


class Alert(Struct, frozen=True, kw_only=True, rename="camel"):
    """Events that a Provider gets."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "Alert"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: AlertSpec = unwritten.spec(AlertSpec)
    status: AlertStatus = AlertStatus()
