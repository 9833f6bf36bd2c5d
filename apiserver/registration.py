"""Register the API as soon as this process answers.

One replica at a time keeps the ``APIService`` as it must be. A registered API that does not answer
blocks the deletion of namespaces. So it is registered when the Service has a ready replica, and
removed when Penstock's namespace is deleted, before its pods end. A replica that only stops does
not remove it: another one is there, or will be.

The process's ClusterRole owns it, so the garbage collector removes it when Penstock is uninstalled.
If an administrator deletes it, it stays deleted until another replica takes the lease or this one
restarts: deleting it is the way to recover in an emergency.
"""

import base64
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from apiserver import metrics
from apiserver.discovery import VERSION
from apiserver.status import GROUP
from certs import injection
from toolkit.kube import installation, rbac
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.kube.informer import Change, Informer
from toolkit.kube.settling import Settling
from toolkit.kube.singleton import Singleton
from toolkit.objects import GroupVersionKind, Json, dig

logger = logging.getLogger(__name__)

NAME: Final = "penstock-apiserver"
"""The Deployment, the Service, the account, the ClusterRole, the lease, the certificates."""
API_SERVICE: Final = f"{VERSION}.{GROUP}"
MANAGER: Final = NAME
_SERVICE: Final = GroupVersionKind("", "v1", "Service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The Service by which API servers find us."""

    namespace: str
    port: int = 443

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names for the certificate; API servers connect to the first one."""
        service = f"{NAME}.{self.namespace}"
        return (f"{service}.svc", f"{service}.svc.cluster.local", service)


class Registration:
    """Keeps the APIService in place while this replica leads."""

    def __init__(
        self,
        client: Client,
        target: Target,
        *,
        bundle: Callable[[], bytes],
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._client = client
        self._target = target
        self._bundle = bundle
        self._ready = ready
        self._applied: Any = None
        self._standing = Singleton(client, injection.API_SERVICE, API_SERVICE, manager=MANAGER)
        self._settling = Settling(client, namespace=target.namespace, failure="not registered")

    async def run(self) -> None:
        """Register, and keep registered until cancelled."""
        await self._ready()
        informer = Informer(
            self._client,
            injection.API_SERVICE,
            decode=msgspec.json.decode,
            field_selector=f"metadata.name={API_SERVICE}",
        )
        informer.subscribe(self._changed)
        await self._settling.run(
            (informer,), settle=self._settle, leave=lambda: unregister(self._client)
        )

    async def _settle(self) -> None:
        wanted = api_service(self._target, bundle=base64.b64encode(self._bundle()).decode())
        wanted["metadata"]["ownerReferences"] = await installation.owner(self._client, NAME)
        applied = await self._standing.apply(wanted)
        if applied is None:
            return
        if self._applied is None:
            logger.info("registered", extra={"apiService": API_SERVICE})
        self._applied = _settled(applied)
        metrics.REGISTERED.set(1)

    def _changed(self, change: Change[Json]) -> None:
        deleted = self._standing.see(change)
        if change.new is None:
            metrics.AVAILABLE.set(0)
            if deleted and not self._settling.leaving:
                metrics.REGISTERED.set(0)
                logger.error("unregistered: somebody deleted the APIService; restart to register")
            return
        metrics.AVAILABLE.set(is_available(change.new))
        if self._applied is not None and _settled(change.new) != self._applied:
            self._settling.wake()


def api_service(target: Target, *, bundle: str = "") -> Json:
    """Return the ``APIService``; ``bundle`` is PEM in base64."""
    body = rbac.manifest("apiregistration.k8s.io/v1", "APIService", API_SERVICE, namespaced=False)
    body["metadata"]["labels"][injection.LABEL] = NAME
    spec: Json = {
        "group": GROUP,
        "version": VERSION,
        # Behind every built-in group: short names of others win.
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "service": {"name": NAME, "namespace": target.namespace, "port": target.port},
    }
    return body | {"spec": spec | ({"caBundle": bundle} if bundle else {})}


async def reachable(client: Client, target: Target) -> None:
    """Wait until the Service has a ready replica; a Service of type ExternalName leads here."""

    async def found() -> bool:
        service = await client.get(_SERVICE, NAME, target.namespace)
        named = dig(service, "spec", "type") == "ExternalName"
        return named or await installation.leads(client, target.namespace, NAME)

    await installation.reachable(found)


async def unregister(client: Client) -> None:
    """Delete the APIService; the cluster then no longer serves its resources.

    Raises:
        ApiError: it could not be deleted.
    """
    try:
        await client.delete(injection.API_SERVICE, API_SERVICE)
    except NotFoundError:
        return
    logger.info("unregistered", extra={"apiService": API_SERVICE})


def is_available(api: Json) -> bool:
    """Tell whether the API server reaches us."""
    conditions = dig(api, "status", "conditions", default=[])
    return any(row["type"] == "Available" and row["status"] == "True" for row in conditions)


def _settled(api: Json) -> Any:
    """Return the fields that we own; others are the API server's."""
    metadata = api["metadata"]
    return api["spec"], metadata.get("labels"), metadata.get("ownerReferences")
