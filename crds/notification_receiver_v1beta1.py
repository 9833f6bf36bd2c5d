"""``notification.toolkit.fluxcd.io/v1beta1``: Receiver as Flux served it up to 2.6.

Fields without a text below them mean what they mean in ``crds.notification_receiver``.
"""

from msgspec import Struct, field

from crds import (
    meta,
    notification,
    notification_receiver,
    notification_receiver_v1beta2,
    notification_v1beta1,
)


class ReceiverSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Who may announce changes, and what is reconciled then."""

    type: notification_receiver.ReceiverType
    events: list[str] = field(default_factory=list)
    resources: list[notification_v1beta1.ObjectSelector]
    secret_ref: meta.LocalObjectReference
    suspend: bool = False


class Receiver(Struct, frozen=True, kw_only=True, rename="camel"):
    """An address where others announce changes, so that objects are reconciled at once."""

    api_version: str = f"{notification.GROUP}/v1beta1"
    kind: str = "Receiver"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ReceiverSpec
    status: notification_receiver_v1beta2.ReceiverStatus = field(
        default_factory=lambda: notification_receiver_v1beta2.ReceiverStatus(observed_generation=-1)
    )
