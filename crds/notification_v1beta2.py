"""``notification.toolkit.fluxcd.io/v1beta2``: Provider and Alert as Flux served them up to 2.8.

Fields without a text below them mean what they mean in ``crds.notification``.
"""

from msgspec import Struct

from crds import meta, notification


class ProviderSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Which service to send events to, and how to sign in."""

    type: notification.ProviderType
    interval: meta.Duration = ""
    channel: notification.Parameter = ""
    username: notification.Parameter = ""
    address: notification.Parameter = ""
    timeout: meta.ShortDuration = ""
    proxy: notification.Parameter = ""
    secret_ref: meta.LocalObjectReference | None = None
    cert_secret_ref: meta.LocalObjectReference | None = None
    suspend: bool = False


class Provider(Struct, frozen=True, kw_only=True, rename="camel"):
    """A service that events are sent to."""

    api_version: str = f"{notification.GROUP}/v1beta2"
    kind: str = "Provider"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ProviderSpec
    status: notification.ProviderStatus = notification.ProviderStatus()


class Alert(Struct, frozen=True, kw_only=True, rename="camel"):
    """Events that a Provider gets."""

    api_version: str = f"{notification.GROUP}/v1beta2"
    kind: str = "Alert"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: notification.AlertSpec
    status: notification.AlertStatus = notification.AlertStatus()
