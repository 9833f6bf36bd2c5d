"""As whom a HelmRelease acts.

Everything that an action sends is impersonated: the tenant's service account, or the applier
account of the install namespace. That holds for the records of the release as well, so a tenant's
release can keep them only where its account may write Secrets. The provenance extras say which
verified chart the write comes from.
"""

from dataclasses import dataclass
from typing import Final

from controllers.helm.sources import ChartSource
from crds.helm import HelmRelease
from toolkit.kube import impersonation
from toolkit.kube.client import Client
from toolkit.objects import ObjectKey

APPLIER: Final = "helm-applier"
"""The service account of the install namespace that acts where no account is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """Makes the client that a HelmRelease acts with.

    ``own`` is the controller's own client, ``namespace`` the install namespace.
    """

    own: Client
    namespace: str
    default_service_account: str = ""

    def account(self, obj: HelmRelease) -> ObjectKey:
        """Return the service account that the HelmRelease acts as."""
        chosen = obj.spec.service_account_name or self.default_service_account
        if chosen:
            return ObjectKey(obj.metadata.namespace, chosen)
        return ObjectKey(self.namespace, APPLIER)

    def impersonated(self, cluster: Client, obj: HelmRelease, source: ChartSource | None) -> Client:
        """Return the client that acts, with provenance extras.

        Without a source, as when a deleted HelmRelease takes its objects along, they name it only.
        A remote cluster is entered with the kubeconfig's own identity unless the spec names an
        account.
        """
        explicit = obj.spec.service_account_name or self.default_service_account
        if cluster is not self.own and not explicit:
            return cluster
        extra = _provenance(obj, source) if cluster is self.own else {}
        account = self.account(obj)
        return cluster.impersonating(
            impersonation.service_account(account.namespace, account.name), extra=extra
        )


def _provenance(obj: HelmRelease, source: ChartSource | None) -> dict[str, str]:
    applier = f"HelmRelease/{obj.metadata.namespace}/{obj.metadata.name}"
    if source is None:
        return impersonation.provenance(applier=applier)
    return impersonation.provenance(
        applier=applier,
        source=str(source.ref),
        revision=source.artifact.revision,
        digest=source.artifact.digest,
        verified=source.verified,
    )
