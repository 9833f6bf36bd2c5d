"""As whom, and on which cluster, a Kustomization is applied.

Every write is impersonated: the tenant's service account, or the applier account of the install
namespace. The provenance extras say which verified revision the write comes from; only our
controllers may set them, so admission can rely on them.
"""

from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from controllers.kustomize.sources import Sources
from crds.kustomize import Kustomization
from toolkit.kube import impersonation
from toolkit.kube.client import Client
from toolkit.kube.remote import RemoteClients
from toolkit.objects import ObjectKey
from toolkit.policy import claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """Makes the client that a Kustomization acts with.

    ``own`` is the controller's own client, ``namespace`` the install namespace.
    """

    own: Client
    remotes: RemoteClients
    namespace: str
    default_service_account: str = ""

    def account(self, obj: Kustomization) -> ObjectKey:
        """Return the service account that the Kustomization acts as."""
        return claims.account(
            obj.metadata.namespace,
            obj.spec.service_account_name,
            default=self.default_service_account,
            installed=self.namespace,
        )

    def cluster(self, obj: Kustomization) -> AbstractAsyncContextManager[Client]:
        """Give the un-impersonated client of the cluster that ``spec.kubeConfig`` names."""
        if obj.spec.kube_config is None:
            return nullcontext(self.own)
        return self.remotes.client(obj.metadata.namespace, obj.spec.kube_config)

    def impersonated(self, cluster: Client, obj: Kustomization, sources: Sources | None) -> Client:
        """Return the client that applies, with provenance extras.

        Without sources, as when a deleted Kustomization takes its objects along, they name it only.
        A remote cluster is entered with the kubeconfig's own identity unless the spec names an
        account (Flux: ``serviceAccountName`` is impersonated there too).
        """
        explicit = obj.spec.service_account_name or self.default_service_account
        if cluster is not self.own and not explicit:
            return cluster
        extra = _provenance(obj, sources) if cluster is self.own else {}
        account = self.account(obj)
        return cluster.impersonating(
            impersonation.service_account(account.namespace, account.name), extra=extra
        )


def _provenance(obj: Kustomization, sources: Sources | None) -> dict[str, str]:
    applier = f"Kustomization/{obj.metadata.namespace}/{obj.metadata.name}"
    if sources is None:
        return impersonation.provenance(applier=applier)
    primary = sources.primary
    # one part that nobody vouches for may shape any object of a composed build
    vouched = all(mount.verified for mount in sources.mounts)
    return impersonation.provenance(
        applier=applier,
        source=str(primary.ref),
        revision=sources.revision,
        digest=sources.digest,
        verified=primary.verified if vouched else "",
    )
