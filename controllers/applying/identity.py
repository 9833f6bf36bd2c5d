"""As whom, and on which cluster, an object applies others.

Every write is impersonated: the tenant's service account, or an account of the install namespace.
The provenance extras say which verified revision the write comes from; only our controllers may set
them, so admission can rely on them.
"""

from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from controllers.applying.applier import Applier
from toolkit.kube import impersonation
from toolkit.kube.client import Client
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.remote import RemoteClients
from toolkit.objects import ObjectKey, ObjectRef
from toolkit.policy import claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a write comes from; ``verified`` says in words who signed it, or is empty."""

    source: ObjectRef
    revision: str
    digest: str
    verified: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """Makes the client that an object acts with.

    ``own`` is the controller's own client. ``installed`` is the account of the install namespace
    that acts for objects that name none.
    """

    own: Client
    remotes: RemoteClients
    installed: ObjectKey
    default_service_account: str = ""

    @classmethod
    def of(
        cls, kind: str, manager: Manager, options: Options, remotes: RemoteClients
    ) -> "Identities":
        """Return those of the objects of a kind, as its controller is installed."""
        return cls(
            own=manager.client,
            remotes=remotes,
            installed=ObjectKey(manager.namespace, claims.ACCOUNTS[kind]),
            default_service_account=options.default_service_account,
        )

    def account(self, obj: Applier) -> ObjectKey:
        """Return the service account that the object acts as."""
        return claims.account(
            obj.metadata.namespace,
            obj.spec.service_account_name,
            default=self.default_service_account,
            installed=self.installed,
        )

    def cluster(self, obj: Applier) -> AbstractAsyncContextManager[Client]:
        """Give the un-impersonated client of the cluster that ``spec.kubeConfig`` names."""
        if obj.spec.kube_config is None:
            return nullcontext(self.own)
        return self.remotes.client(obj.metadata.namespace, obj.spec.kube_config)

    def impersonated(self, cluster: Client, obj: Applier, origin: Origin | None) -> Client:
        """Return the client that applies, with provenance extras.

        Without an origin, as when a deleted object takes along what it applied, they name it only.
        A remote cluster is entered with the kubeconfig's own identity unless the spec names an
        account (Flux: ``serviceAccountName`` is impersonated there too).
        """
        explicit = obj.spec.service_account_name or self.default_service_account
        if cluster is not self.own and not explicit:
            return cluster
        extra = _provenance(obj, origin) if cluster is self.own else {}
        account = self.account(obj)
        return cluster.impersonating(
            impersonation.service_account(account.namespace, account.name), extra=extra
        )


def _provenance(obj: Applier, origin: Origin | None) -> dict[str, str]:
    applier = f"{obj.kind}/{obj.metadata.namespace}/{obj.metadata.name}"
    if origin is None:
        return impersonation.provenance(applier=applier)
    return impersonation.provenance(
        applier=applier,
        source=str(origin.source),
        revision=origin.revision,
        digest=origin.digest,
        verified=origin.verified,
    )
