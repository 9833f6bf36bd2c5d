"""``notification.toolkit.fluxcd.io/v1beta2``: Receiver as Flux served it up to 2.8.

Fields without a text below them mean what they mean in ``crds.notification_receiver``.
"""

from msgspec import Struct, field

from crds import meta, notification, notification_receiver


class ReceiverSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Who may announce changes, and what is reconciled then."""

    type: notification_receiver.ReceiverType
    interval: meta.Duration = ""
    events: list[str] = field(default_factory=list)
    resources: list[notification.ObjectSelector]
    secret_ref: meta.LocalObjectReference
    suspend: bool = False


class ReceiverStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """Where requests are sent to."""

    url: str = ""
    """Deprecated: path of the address that senders are given."""
    webhook_path: str = ""
    observed_generation: meta.Count = 0
    conditions: meta.Conditions = field(default_factory=list)
    last_handled_reconcile_at: str = ""


class Receiver(Struct, frozen=True, kw_only=True, rename="camel"):
    """An address where others announce changes, so that objects are reconciled at once."""

    api_version: str = f"{notification.GROUP}/v1beta2"
    kind: str = "Receiver"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ReceiverSpec
    status: ReceiverStatus = field(default_factory=lambda: ReceiverStatus(observed_generation=-1))
