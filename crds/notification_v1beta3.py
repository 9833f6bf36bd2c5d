"""``notification.toolkit.fluxcd.io/v1beta3``: Provider and Alert as Flux 2.9 serves them."""

from msgspec import Struct

from crds import meta, notification


class Provider(Struct, frozen=True, kw_only=True, rename="camel"):
    """A service that events are sent to."""

    api_version: str = f"{notification.GROUP}/v1beta3"
    kind: str = "Provider"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: notification.ProviderSpec


class Alert(Struct, frozen=True, kw_only=True, rename="camel"):
    """Events that a Provider gets."""

    api_version: str = f"{notification.GROUP}/v1beta3"
    kind: str = "Alert"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: notification.AlertSpec
