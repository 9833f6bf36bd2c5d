"""The identity with which an applier writes, and the cluster to which it writes.

Every write impersonates a service account: the tenant's, or one in the install namespace. The
provenance extras of the request state the verified revision that the write comes from. Only
Penstock's controllers may set them, so admission can rely on them.
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
    """The source of a write; ``verified`` names the signer, and is empty without a signature."""

    source: ObjectRef
    revision: str
    digest: str
    verified: str = ""


def signer(source: ObjectRef, artifact: Artifact) -> str:
    """Return the signer of an artifact for messages; empty if no signature was required.

    The metadata of the artifact has the signer. The condition SourceVerified is about the latest
    revision, which may be another one. For an ExternalArtifact the result is always empty, because
    third parties write its status.
    """
    if source.gvk.kind == EXTERNAL_ARTIFACT.kind:
        return ""
    return (artifact.metadata or {}).get(VERIFIED, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """Makes the clients with which appliers act.

    ``own`` is the controller's own client. ``installed`` is the account in the install namespace
    that acts for objects that name no account. ``present`` caches for a second which accounts
    exist.
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
        """Return the identities for the appliers of one kind."""
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
        """Require that the service account exists.

        An account is read at most once per second, for example if many objects of a namespace are
        deleted together.

        Raises:
            NotFoundError: the account does not exist.
        """
        account = self.account(obj)
        key = str(account).encode()
        if self.present.recall(key) is None:
            await self.own.get(_SERVICE_ACCOUNT, account.name, account.namespace)
            self.present.keep(key, None, seconds=_BELIEVED_SECONDS)

    def cluster(self, obj: Applier) -> AbstractAsyncContextManager[Client]:
        """Return a client without impersonation for the cluster that ``spec.kubeConfig`` names."""
        if obj.spec.kube_config is None:
            return nullcontext(self.own)
        return self.remotes.client(obj.metadata.namespace, obj.spec.kube_config)

    def about(self, obj: Applier, origin: Origin) -> dict[str, str]:
        """Return the metadata of events: the account that applies, and the signer of the artifact.

        The account is left out if the identity is that of the kubeconfig of a remote cluster, which
        is unknown.
        """
        found = {"verified": origin.verified} if origin.verified else {}
        if obj.spec.kube_config and not (
            obj.spec.service_account_name or self.default_service_account
        ):
            return found
        account = self.account(obj)
        return {"account": f"{account.namespace}/{account.name}", **found}

    def impersonated(self, cluster: Client, obj: Applier, origin: Origin | None) -> Client:
        """Return the client that applies objects, with provenance extras.

        Without an origin, as in the deletion of an applier, the extras name only the applier. On a
        remote cluster the client has the identity of the kubeconfig, unless the spec or the flag
        names an account (as in Flux, ``serviceAccountName`` is impersonated there too).
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
