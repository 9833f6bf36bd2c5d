"""Whether a webhook decrypts the encrypted Secrets of a chart in the target cluster.

Only the webhook of this cluster can decrypt them, at admission. If the controller decrypted them,
Helm's record of the release would contain the decrypted values. So the controller refuses to
release a chart whose Secrets would be stored encrypted.
"""

from typing import Protocol

from controllers.applying.applier import Applier
from crds.helm import HelmRelease
from toolkit.errors import StalledError, WaitingError


class Decrypting(Protocol):
    """Tells whether the webhook runs (``controllers.applying.admission.Admission``)."""

    def decrypts(self, obj: Applier) -> bool:
        """Tell whether the webhook decrypts the Secrets that the object applies."""


def require_here(obj: HelmRelease) -> None:
    """Require that a HelmRelease with ``spec.decryption`` is deployed to this cluster.

    Raises:
        StalledError: ``spec.kubeConfig`` names another cluster.
    """
    if obj.spec.decryption is not None and obj.spec.kube_config is not None:
        raise StalledError(
            "spec.decryption: encrypted Secrets of a chart are decrypted by the webhook of this"
            " cluster, but spec.kubeConfig names another cluster: remove one of the two",
            reason="DecryptionUnavailable",
        )


def require(obj: HelmRelease, admission: Decrypting) -> None:
    """Require that the webhook runs if the HelmRelease has ``spec.decryption``.

    Call it before objects of the release are written or compared.

    Raises:
        WaitingError: no webhook decrypts Secrets at present.
    """
    if obj.spec.decryption is not None and not admission.decrypts(obj):
        raise WaitingError(
            "spec.decryption: encrypted Secrets of a chart are decrypted at admission, but this"
            " cluster has no webhook that does so: start it with --webhook-client-networks or"
            " --webhook-client-ca-file, or remove spec.decryption",
            reason="DecryptionUnavailable",
        )
