"""Whether encrypted Secrets of a chart are decrypted where the release goes.

The webhook of this cluster does it as they enter, and nobody else: what this controller opened
would stand in Helm's record of the release. So nothing is released that would be stored encrypted.
"""

from typing import Protocol

from controllers.applying.applier import Applier
from crds.helm import HelmRelease
from toolkit.errors import StalledError, WaitingError


class Decrypting(Protocol):
    """Whether the webhook is there (``controllers.applying.admission.Admission``)."""

    def decrypts(self, obj: Applier) -> bool:
        """Tell whether Secrets that the object applies may be sent encrypted."""


def require_here(obj: HelmRelease) -> None:
    """Let a HelmRelease be that names no keys, or goes to this cluster.

    Raises:
        StalledError: it goes to another one.
    """
    if obj.spec.decryption is not None and obj.spec.kube_config is not None:
        raise StalledError(
            "spec.decryption: encrypted Secrets of a chart are decrypted by the webhook of this"
            " cluster, and spec.kubeConfig leads to another: remove one of the two",
            reason="DecryptionUnavailable",
        )


def require(obj: HelmRelease, admission: Decrypting) -> None:
    """Let objects of a release be written, or compared, whose Secrets are plain or decrypted here.

    Raises:
        WaitingError: nobody decrypts now.
    """
    if obj.spec.decryption is not None and not admission.decrypts(obj):
        raise WaitingError(
            "spec.decryption: encrypted Secrets of a chart are decrypted as they enter the cluster,"
            " and no webhook does so here: start it with --webhook-client-networks or"
            " --webhook-client-ca-file, or remove spec.decryption",
            reason="DecryptionUnavailable",
        )
