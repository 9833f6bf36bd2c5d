"""``notification.toolkit.fluxcd.io/v1beta1``: Provider and Alert as Flux served them up to 2.6.

Fields without a text below them mean what they mean in ``crds.notification``.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, field

from crds import meta, notification

_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=53)]
_Address: TypeAlias = Annotated[str, Meta(pattern=r"^(http|https)://.*$")]


class ObjectSelector(meta.ApiStruct, frozen=True, kw_only=True):
    """Objects of one kind in one namespace."""

    api_version: str = ""
    kind: notification.SourceKind
    name: _Name
    namespace: _Name = ""
    match_labels: dict[str, str] = field(default_factory=dict)


class ProviderSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Which service to send events to, and how to sign in."""

    type: notification.ProviderType
    channel: str = ""
    username: str = ""
    address: _Address = ""
    timeout: meta.ShortDuration = ""
    proxy: _Address = ""
    secret_ref: meta.LocalObjectReference | None = None
    cert_secret_ref: meta.LocalObjectReference | None = None
    suspend: bool = False


class Provider(Struct, frozen=True, kw_only=True, rename="camel"):
    """A service that events are sent to."""

    api_version: str = f"{notification.GROUP}/v1beta1"
    kind: str = "Provider"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ProviderSpec
    status: notification.ProviderStatus = notification.ProviderStatus()


class AlertSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Which events are sent, and where."""

    provider_ref: meta.LocalObjectReference
    event_severity: notification.Severity = "info"
    event_sources: list[ObjectSelector]
    exclusion_list: list[str] = field(default_factory=list)
    summary: str = ""
    suspend: bool = False


class Alert(Struct, frozen=True, kw_only=True, rename="camel"):
    """Events that a Provider gets."""

    api_version: str = f"{notification.GROUP}/v1beta1"
    kind: str = "Alert"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: AlertSpec
    status: notification.AlertStatus = notification.AlertStatus()
