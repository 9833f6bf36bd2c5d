"""As whom, and on which cluster, an object applies others.

Every write is impersonated: the tenant's service account, or an account of the install namespace.
The provenance extras say which verified revision the write comes from; only our controllers may set
them, so admission can rely on them.
"""

import time
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from controllers.applying.applier import Applier
from crds import EXTERNAL_ARTIFACT
from crds.meta import VERIFIED, Artifact
from toolkit.kube import impersonation
from toolkit.kube.client import Client
from toolkit.kube.manager import Manager
from toolkit.kube.memory import Memory
from toolkit.kube.options import Options
from toolkit.kube.remote import RemoteClients
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy import claims

_SERVICE_ACCOUNT: Final = GroupVersionKind("", "v1", "ServiceAccount")
_BELIEVED_SECONDS: Final = 1.0
_ACCOUNTS: Final = 256


def _nothing_known() -> Memory[None]:
    return Memory(size=_ACCOUNTS, now=time.monotonic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a write comes from; ``verified`` says in words who signed it, or is empty."""

    source: ObjectRef
    revision: str
    digest: str
    verified: str = ""


def signer(source: ObjectRef, artifact: Artifact) -> str:
    """Return who signed the artifact of a source, in words; empty if nobody had to.

    The condition SourceVerified tells of the latest revision, which need not be this one. The
    status of an ExternalArtifact is written by third parties, who prove nothing to us.
    """
    if source.gvk.kind == EXTERNAL_ARTIFACT.kind:
        return ""
    return (artifact.metadata or {}).get(VERIFIED, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """Makes the client that an object acts with.

    ``own`` is the controller's own client. ``installed`` is the account of the install namespace
    that acts for objects that name none. ``present`` are the accounts that were there a moment ago.
    """

    own: Client
    remotes: RemoteClients
    installed: ObjectKey
    default_service_account: str = ""
    present: Memory[None] = field(default_factory=_nothing_known, repr=False)

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

    async def require_account(self, obj: Applier) -> None:
        """Require that the account exists; many that end together ask once a second.

        Raises:
            NotFoundError: it does not.
        """
        account = self.account(obj)
        key = str(account).encode()
        if self.present.recall(key) is None:
            await self.own.get(_SERVICE_ACCOUNT, account.name, account.namespace)
            self.present.keep(key, None, seconds=_BELIEVED_SECONDS)

    def cluster(self, obj: Applier) -> AbstractAsyncContextManager[Client]:
        """Give the un-impersonated client of the cluster that ``spec.kubeConfig`` names."""
        if obj.spec.kube_config is None:
            return nullcontext(self.own)
        return self.remotes.client(obj.metadata.namespace, obj.spec.kube_config)

    def about(self, obj: Applier, origin: Origin) -> dict[str, str]:
        """Return who applies, and who signed what is applied: metadata of events.

        Whom the kubeconfig of a remote cluster stands for is not known.
        """
        found = {"verified": origin.verified} if origin.verified else {}
        if obj.spec.kube_config and not (
            obj.spec.service_account_name or self.default_service_account
        ):
            return found
        account = self.account(obj)
        return {"account": f"{account.namespace}/{account.name}", **found}

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
