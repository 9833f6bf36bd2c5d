"""Register the webhooks as soon as this process answers, and remove them before it is uninstalled.

One replica at a time does this. When reviews can be answered, it applies the configurations, which
contain the certificate authority. It reverts every change to them. If an administrator deletes a
configuration, it stays deleted until another replica takes the lease or this one restarts: deleting
it is the way to recover in an emergency.

During a rolling update, the leader waits until the replicas of the other version have ended: they
may not know a webhook of this version, and would deny the requests to it. Until then the
configurations of the other version stay, if this version answers all their webhooks.

Plugins that need policies are registered only while there is a policy, so the pods of a cluster
without policies do not depend on this process.

The process's ClusterRole owns the configurations, so the garbage collector removes them when
Penstock is uninstalled. When Penstock's namespace is deleted, the leader deletes them before its
pods end.
"""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from certs import injection
from toolkit.kube import installation
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.kube.informer import Change, Informer
from toolkit.kube.settling import Settling
from toolkit.kube.singleton import Singleton
from toolkit.objects import GroupVersionKind, Json, dig, gvk_of
from webhooks import configuration, metrics
from webhooks.configuration import CLUSTER_ROLE, CONFIGURATION, NAME, Target
from webhooks.plugin import Row

logger = logging.getLogger(__name__)

MANAGER: Final = "penstock-webhook"
_KINDS: Final = (injection.MUTATING, injection.VALIDATING)
_UPDATE_SECONDS: Final = 600.0
"""After as long, a Deployment counts as one that does not progress."""
_LOOK_SECONDS: Final = 2.0


class Arming:
    """Keeps the configurations in place while this replica leads."""

    def __init__(
        self,
        client: Client,
        rows: Sequence[Row],
        target: Target,
        *,
        bundle: Callable[[], bytes],
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._client = client
        self._rows = rows
        self._target = target
        self._bundle = bundle
        self._ready = ready
        self._applied: dict[GroupVersionKind, str] = {}
        self._standing = {
            gvk: Singleton(client, gvk, CONFIGURATION, manager=MANAGER) for gvk in _KINDS
        }
        self._settling = Settling(client, namespace=target.namespace, failure="not armed")
        self._policies = {row.needed: self._policy(row.needed) for row in rows if row.needed}

    async def run(self) -> None:
        """Arm, and keep armed until cancelled."""
        await self._ready()
        await self._settling.run(
            (*self._watched(), *self._policies.values()),
            settle=self._settle,
            leave=lambda: disarm(self._client),
        )

    async def _settle(self) -> None:
        bundle = base64.b64encode(self._bundle()).decode()
        rows = [row for row in self._rows if self._has_a_say(row)]
        wanted = configuration.configurations(rows, self._target, bundle=bundle)
        owner = await installation.owner(self._client, CLUSTER_ROLE)
        for obj in wanted:
            gvk = gvk_of(obj)
            obj["metadata"]["ownerReferences"] = owner
            written = await self._written(gvk, obj)
            if written is None:
                continue
            version = str(dig(written, "metadata", "resourceVersion"))
            if self._applied.get(gvk) != version:
                logger.info("armed", extra={"configuration": gvk.kind})
            self._applied[gvk] = version
            metrics.ARMED.labels(gvk.kind).set(1)
        for gvk in {*_KINDS} - {gvk_of(obj) for obj in wanted}:
            if await self._standing[gvk].withdraw():
                logger.info("disarmed", extra={"configuration": gvk.kind})

    async def _written(self, gvk: GroupVersionKind, obj: Json) -> Json | None:
        """Apply a configuration, and return the stored one without fields of others.

        An apply keeps list entries that others added, such as a condition that is never true, or
        another webhook under our name. None means that another client has deleted the
        configuration.
        """
        found = await self._standing[gvk].apply(obj)
        if found is None or _bare(found["webhooks"]) == _bare(obj["webhooks"]):
            return found
        logger.warning("removing what others added", extra={"configuration": gvk.kind})
        whole = [
            {
                "op": "test",
                "path": "/metadata/resourceVersion",
                "value": found["metadata"]["resourceVersion"],
            },
            {"op": "replace", "path": "/webhooks", "value": obj["webhooks"]},
        ]
        return await self._client.patch(
            gvk, CONFIGURATION, "", whole, strategy="json", manager=MANAGER
        )

    def _has_a_say(self, row: Row) -> bool:
        """Tell whether the plugin is needed: always, or only while a policy exists."""
        return row.needed is None or bool(self._policies[row.needed].items())

    def _policy(self, gvk: GroupVersionKind) -> Informer[Json]:
        informer = Informer(self._client, gvk, decode=msgspec.json.decode, metadata_only=True)

        def handle(change: Change[Json]) -> None:
            if (change.old is None) != (change.new is None):  # the first one, or the last
                self._settling.wake()

        informer.subscribe(handle)
        return informer

    def _watched(self) -> list[Informer[Json]]:
        informers = [
            Informer(
                self._client,
                gvk,
                decode=msgspec.json.decode,
                field_selector=f"metadata.name={CONFIGURATION}",
                metadata_only=True,
            )
            for gvk in _KINDS
        ]
        for informer in informers:
            informer.subscribe(self._watching(informer.gvk))
        return informers

    def _watching(self, gvk: GroupVersionKind) -> Callable[[Change[Json]], None]:
        def handle(change: Change[Json]) -> None:
            deleted = self._standing[gvk].see(change)
            if change.new is None:
                if deleted and not self._settling.leaving:
                    metrics.ARMED.labels(gvk.kind).set(0)
                    logger.error(
                        "disarmed: somebody deleted the configuration; restart to arm again",
                        extra={"configuration": gvk.kind},
                    )
                return
            if change.new["metadata"]["resourceVersion"] != self._applied.get(gvk):
                self._settling.wake()

        return handle


def _bare(webhooks: Sequence[Json]) -> list[Json]:
    """Return the webhooks without empty fields, which may be stored or not."""
    return [{name: value for name, value in each.items() if value} for each in webhooks]


async def reachable(client: Client, target: Target) -> None:
    """Wait until the Service leads to a ready replica; a URL leads here anyway."""
    if not target.url:
        await installation.reachable(lambda: installation.leads(client, target.namespace, NAME))


async def updated(client: Client, rows: Sequence[Row], target: Target, *, pod: str) -> None:
    """Wait until a rolling update is over, if this version answers all registered webhooks.

    ``rows`` are our plugins, and ``pod`` is the name of our Pod. If no webhook is registered, or
    one that we do not answer, as after a rollback, it does not wait. If the update does not end, it
    stops waiting, because no other replica maintains the configurations.
    """
    if target.url:
        return

    names = (name for row in rows for name in (row.name, row.webhook))
    answered = {configuration.full_name(name) for name in names if name}

    async def over() -> bool:
        if await installation.updated(client, target.namespace, NAME, pod=pod):
            return True
        asked = {name for gvk in _KINDS for name in await _asked(client, gvk)}
        return not asked or not asked <= answered

    try:
        async with asyncio.timeout(_UPDATE_SECONDS):
            await installation.reachable(over, pause=_LOOK_SECONDS)
    except TimeoutError:
        logger.warning("arming beside replicas of another version: they do not end")


async def _asked(client: Client, gvk: GroupVersionKind) -> list[str]:
    """Return the names of the webhooks in a configuration."""
    try:
        found = await client.get(gvk, CONFIGURATION)
    except NotFoundError:
        return []
    return [str(each["name"]) for each in found.get("webhooks") or ()]


async def disarm(client: Client) -> None:
    """Delete the configurations; afterwards requests are admitted without checks.

    Raises:
        ApiError: a configuration could not be deleted.
    """
    for gvk in _KINDS:
        await _delete(client, gvk)
        metrics.ARMED.labels(gvk.kind).set(0)


async def _delete(client: Client, gvk: GroupVersionKind) -> None:
    try:
        await client.delete(gvk, CONFIGURATION)
    except NotFoundError:
        return
    logger.info("disarmed", extra={"configuration": gvk.kind})
