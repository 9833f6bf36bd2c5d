"""Whether a webhook of this cluster decrypts Secrets at admission. Only this module decides that.

It does if the webhook for carriers is registered with ``failurePolicy: Fail`` for every Secret with
the label. Otherwise, and for other clusters, the controller decrypts files before the build. An
informer watches the registrations, so the check costs no request, and appliers that decrypt are
reconciled when the answer changes.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from controllers.applying.applier import Applier
from controllers.waking import Enqueue
from crds.helm import HelmRelease
from crds.kustomize import Kustomization
from toolkit.decrypt import envelope
from toolkit.kube.client import Client
from toolkit.kube.informer import Change, Informer
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig

T = TypeVar("T", Kustomization, HelmRelease)

REGISTRATION: Final = GroupVersionKind(
    "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration"
)


class Admission:
    """Follows the registered webhooks of the controller's own cluster."""

    def __init__(self, client: Client) -> None:
        self.informer: Informer[bool] = Informer(client, REGISTRATION, decode=decrypts)

    @property
    def armed(self) -> bool:
        """Tell whether a webhook of this cluster decrypts carriers."""
        return any(self.informer.items().values())

    def decrypts(self, obj: Applier) -> bool:
        """Tell whether the object may apply Secrets as carriers, in encrypted form."""
        return self.armed and obj.spec.kube_config is None

    def wake(self, decrypting: Callable[[], Iterable[ObjectKey]], enqueue: Enqueue) -> None:
        """Enqueue the objects of ``decrypting`` when the webhook is registered or removed."""

        def handle(change: Change[bool]) -> None:
            if bool(change.old) == bool(change.new):
                return
            for key in decrypting():
                enqueue(key, "dependency")

        self.informer.subscribe(handle)


def decrypting(informer: Informer[T]) -> Iterator[ObjectKey]:
    """Yield the appliers with ``spec.decryption``."""
    return (key for key, obj in informer.items().items() if obj.spec.decryption is not None)


def decrypts(raw: bytes) -> bool:
    """Tell whether a webhook configuration (JSON) registers the webhook that decrypts carriers."""
    return any(map(_is_ours, _decode(raw).get("webhooks") or ()))


_decode: Final[Callable[[bytes], Json]] = msgspec.json.Decoder(Json).decode
_SELECTOR: Final = {"matchLabels": {envelope.LABEL: envelope.ENABLED}}


def _is_ours(webhook: Json) -> bool:
    return (
        webhook.get("name") == envelope.WEBHOOK
        and webhook.get("failurePolicy") == "Fail"
        and webhook.get("objectSelector") == _SELECTOR
        and not webhook.get("namespaceSelector")
        and bool(dig(webhook, "clientConfig", "caBundle"))
    )
