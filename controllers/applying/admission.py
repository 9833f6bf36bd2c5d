"""Whether encrypted Secrets are decrypted as they enter this cluster: the one place that decides.

They are where the webhook is registered that fills carriers, failing closed and for every Secret
that asks. Where it is not, or for another cluster, files are decrypted before the build. What is
registered is watched, so a look costs nothing, and objects that decrypt learn of a change.
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
    """Follows the registered webhooks of the cluster that we run on."""

    def __init__(self, client: Client) -> None:
        self.informer: Informer[bool] = Informer(client, REGISTRATION, decode=decrypts)

    @property
    def armed(self) -> bool:
        """Tell whether carriers are opened here."""
        return any(self.informer.items().values())

    def decrypts(self, obj: Applier) -> bool:
        """Tell whether Secrets that the object applies may be sent encrypted."""
        return self.armed and obj.spec.kube_config is None

    def wake(self, decrypting: Callable[[], Iterable[ObjectKey]], enqueue: Enqueue) -> None:
        """Have those who decrypt look again when the webhook comes or goes."""

        def handle(change: Change[bool]) -> None:
            if bool(change.old) == bool(change.new):
                return
            for key in decrypting():
                enqueue(key, "dependency")

        self.informer.subscribe(handle)


def decrypting(informer: Informer[T]) -> Iterator[ObjectKey]:
    """Yield the appliers that name keys."""
    return (key for key, obj in informer.items().items() if obj.spec.decryption is not None)


def decrypts(raw: bytes) -> bool:
    """Tell whether a webhook configuration registers the one that opens carriers."""
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
