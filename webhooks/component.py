"""The webhook process: its certificates, its plugins, its port, and its registration.

It is ready as soon as it listens with a certificate. It does not wait for the caches of plugins:
they may contain objects in old versions, which only this process can convert. Each request waits
for the caches of its plugin instead, and the webhooks are registered when all caches are complete.
"""

import asyncio
import dataclasses
import functools
import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

from certs import component as certificates
from certs.serving import Serving
from crds import KINDS
from toolkit.events import Recorder
from toolkit.kube import undecoded
from toolkit.kube.informer import Informer
from toolkit.kube.manager import Manager
from toolkit.kube.migration import Migration
from toolkit.kube.options import Options
from toolkit.objects import GroupVersionKind
from toolkit.policy import unreadable
from toolkit.turns import Turns
from webhooks import arming, services
from webhooks.arming import Arming
from webhooks.callers import Callers
from webhooks.configuration import NAME, Target
from webhooks.conversion import Conversions
from webhooks.definitions import Definitions
from webhooks.listener import Listener
from webhooks.plugin import Row
from webhooks.server import Endpoint, Entry, Reviews
from webhooks.services import Cache, Caches, Services

logger = logging.getLogger(__name__)

_PATIENCE: Final = 15.0
COMPONENT: Final = "webhooks"
"""The component of the kinds that only this process reads."""


async def start(manager: Manager, options: Options, *, rows: Sequence[Row]) -> None:
    """Wire the gate into the manager.

    Raises:
        ValueError: a plugin to disable does not exist, or a network or namespace is invalid.
        CertificateError: the authorities of callers are invalid.
        OSError: the authorities cannot be read.
    """
    serving = Serving(ask_clients=bool(options.webhook_client_ca_file))
    callers = Callers.trusting(serving, options)
    rows = _enabled(rows, options.disable_admission_plugins, callers)
    target = Target(
        namespace=manager.namespace,
        url=options.webhook_url.rstrip("/"),
        exempt=options.webhook_exempt_namespaces,
    )
    shared, caches = await services.start(manager, options), Caches(manager.client)
    shared = dataclasses.replace(shared, proven=callers.proven)
    entries = {row.name: _entry(row, shared, caches, options) for row in rows}
    for informer in caches.informers:
        manager.add_service(informer.run)
    _report(manager, caches)

    keeper = certificates.start(manager, options, serving, name=NAME, hosts=target.hosts)
    listener = Listener(
        Endpoint(
            Reviews(entries),
            convert=Conversions(KINDS).convert,
            callers=callers,
        ),
        serving,
        address=options.webhook_addr,
        certificate=keeper.wait_ready,
        grace=options.graceful_shutdown_timeout,
    )
    manager.add_informer(listener)

    async def answering() -> None:
        await listener.wait_synced()
        await arming.reachable(manager.client, target)

    async def complete() -> None:
        await answering()
        await _complete(caches.informers)
        await arming.updated(manager.client, rows, target, pod=os.uname().nodename)

    client, bundle = manager.client, lambda: keeper.bundle
    for work in (
        Definitions(client, KINDS, target, bundle=bundle, ready=answering).run,
        Arming(client, rows, target, bundle=bundle, ready=complete).run,
        # It reads objects in old versions, so it waits for conversion itself.
        Migration(client, KINDS).run,
    ):
        manager.add_elected(work, lease=NAME)


def _report(manager: Manager, caches: Caches) -> None:
    """Have events sent for policies that cannot be read, and so refuse what they may govern."""
    recorder = Recorder(manager.client, controller=NAME)
    manager.add_service(recorder.run)
    informers = {each.gvk: each for each in caches.informers if isinstance(each, Informer)}
    for kind in KINDS:
        informer = informers.get(GroupVersionKind(*kind.gvk))
        if informer is not None and kind.component == COMPONENT:
            manager.add_elected(
                functools.partial(
                    undecoded.tell,
                    kind,
                    informer,
                    recorder,
                    meanwhile=unreadable.MEANWHILE[kind.kind],
                ),
                lease=NAME,
            )


def _enabled(rows: Sequence[Row], disabled: Sequence[str], callers: Callers) -> list[Row]:
    names = [row.name for row in rows]
    if unknown := [name for name in disabled if name not in names]:
        raise ValueError(
            f"--disable-admission-plugins: {', '.join(unknown)} is not one of {', '.join(names)}"
        )
    wanted = [row for row in rows if row.name not in disabled]
    for row in wanted:
        if row.discloses and not callers.proven:
            logger.warning(
                "plugin not enabled: callers cannot be identified as API servers; give"
                " --webhook-client-ca-file or --webhook-client-networks",
                extra={"plugin": row.name},
            )
    return [row for row in wanted if callers.proven or not row.discloses]


def _entry(row: Row, shared: Services, caches: Caches, options: Options) -> Entry:
    asked: list[Cache[Any]] = []
    plugin = row.make(dataclasses.replace(shared, watch=caches.watching(asked)))
    places = options.webhook_concurrent
    return Entry(
        row=row,
        plugin=plugin,
        turns=Turns(places=places, waiting=8 * places),
        caches=tuple(asked),
    )


async def _complete(caches: Iterable[Any]) -> None:
    """Wait for the caches, and name those that do not come."""
    for cache in caches:
        while not cache.synced:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await cache.wait_synced()
            except TimeoutError:
                logger.error(  # noqa: TRY400 - one line
                    "not armed yet: a cache is not complete", extra={"kind": str(cache.gvk)}
                )
