"""``notification.toolkit.fluxcd.io/v1``: Receiver, an address where others announce changes.

Fields, patterns, defaults and rules are those of Flux's notification-controller.
"""

from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct, field

from crds import meta, notification, unwritten
from crds.rules import Rule

ReceiverType: TypeAlias = Literal[
    "generic",
    "generic-hmac",
    "generic-oidc",
    "github",
    "gitlab",
    "bitbucket",
    "harbor",
    "dockerhub",
    "quay",
    "gcr",
    "nexus",
    "acr",
    "cdevents",
]


class ReceiverResource(notification.ObjectSelector, frozen=True, kw_only=True):
    """Objects of one kind in one namespace that a hook reconciles."""

    filter: str = ""
    """CEL expression over `res` and `req`: which of the objects to reconcile."""


class OIDCVariable(meta.ApiStruct, frozen=True, kw_only=True):
    """A value that validations use."""

    name: Annotated[str, Meta(min_length=1, max_length=253)]
    """Name, as `vars.<name>` in expressions."""
    expression: Annotated[str, Meta(min_length=1)]
    """CEL expression over `claims` and the variables before it."""


class OIDCValidation(meta.ApiStruct, frozen=True, kw_only=True):
    """What a token must say."""

    expression: Annotated[str, Meta(min_length=1)]
    """CEL expression over `claims` and `vars` that must be true."""
    message: Annotated[str, Meta(min_length=1)]
    """What the sender is told where it is not."""


class OIDCProvider(meta.ApiStruct, frozen=True, kw_only=True):
    """An issuer of tokens that senders sign in with."""

    issuer_url: Annotated[str, Meta(min_length=1, max_length=2048)] = field(name="issuerURL")
    """Address of the issuer, as it is in the token. Its keys are found below it."""
    audience: str = ""
    """Audience that tokens are made for. Defaults to the address of the hook."""
    variables: list[OIDCVariable] = field(default_factory=list)
    """Values that validations use."""
    validations: Annotated[list[OIDCValidation], Meta(min_length=1)]
    """What a token must say. All must hold."""


class ReceiverSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Who may announce changes, and what is reconciled then."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.type == 'generic-oidc' || has(self.secretRef)",
            "spec.secretRef is required unless spec.type is 'generic-oidc'",
            field=".secretRef",
            reason="FieldValueRequired",
        ),
        Rule(
            "self.type != 'generic-oidc' || !has(self.secretRef)",
            "spec.secretRef must not be set when spec.type is 'generic-oidc'",
            field=".secretRef",
            reason="FieldValueForbidden",
        ),
        Rule(
            "self.type != 'generic-oidc' || (has(self.oidcProviders) && "
            "self.oidcProviders.size() > 0)",
            "spec.oidcProviders is required when spec.type is 'generic-oidc'",
            field=".oidcProviders",
            reason="FieldValueRequired",
        ),
        Rule(
            "self.type == 'generic-oidc' || !has(self.oidcProviders)",
            "spec.oidcProviders must not be set unless spec.type is 'generic-oidc'",
            field=".oidcProviders",
            reason="FieldValueForbidden",
        ),
    )

    type: ReceiverType
    """Who sends, and so how a request is checked."""
    interval: meta.Duration = "10m"
    """How often the Receiver itself is reconciled."""
    events: list[str] = field(default_factory=list)
    """Events to act upon, by the name that the sender gives them. Defaults to all."""
    resources: list[ReceiverResource]
    """Objects to reconcile."""
    resource_filter: str = ""
    """CEL expression over `res` and `req`: which of all these objects to reconcile."""
    secret_ref: meta.LocalObjectReference | None = None
    """Secret with the `token` that senders share; for `gcr` with `email` and `audience`
    besides."""
    oidc_providers: list[OIDCProvider] = field(name="oidcProviders", default_factory=list)
    """Issuers whose tokens are accepted. For `generic-oidc`."""
    suspend: bool = False
    """Answer requests with 503 and act upon none."""

    @property
    def interval_seconds(self) -> float:
        """Return the time between two reconciliations of the Receiver."""
        return meta.interval_seconds(self.interval)


class ReceiverStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """Where requests are sent to."""

    webhook_path: str = ""
    """Path of the address that senders are given."""
    observed_generation: meta.Count = 0
    """Generation of the spec that this status describes; -1 before the first look."""
    conditions: meta.Conditions = field(default_factory=list)
    """Ready, and while they hold Reconciling, Stalled."""
    last_handled_reconcile_at: str = ""
    """Value of the annotation reconcile.fluxcd.io/requestedAt that was acted upon last."""


class Receiver(Struct, frozen=True, kw_only=True, rename="camel"):
    """An address where others announce changes, so that objects are reconciled at once."""

    api_version: str = f"{notification.GROUP}/v1"
    kind: str = "Receiver"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ReceiverSpec = unwritten.spec(ReceiverSpec)
    status: ReceiverStatus = field(default_factory=lambda: ReceiverStatus(observed_generation=-1))
