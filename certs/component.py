"""Wire certificates into a process: made, shared, served, and injected where they are trusted."""

import datetime as dt
from collections.abc import Collection

from certs.injection import Injector
from certs.keeper import Keeper
from certs.rotation import Terms
from certs.serving import Serving
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.objects import GroupVersionKind


def start(  # noqa: PLR0913 - who, for which hosts, served where, trusted by what
    manager: Manager,
    options: Options,
    serving: Serving,
    *,
    name: str,
    hosts: tuple[str, ...],
    kinds: Collection[GroupVersionKind] = (),
) -> Keeper:
    """Keep the certificates of ``name``; only who holds its lease injects, into ``kinds`` or all.

    ``hosts`` are the names and addresses that they are for.
    """
    injector = Injector(manager.client, name, kinds=kinds)
    keeper = Keeper(
        manager.client,
        namespace=manager.namespace,
        name=name,
        hosts=hosts,
        injector=injector,
        serving=serving,
        terms=Terms(
            authority=dt.timedelta(seconds=options.certificate_authority_lifetime),
            leaf=dt.timedelta(seconds=options.certificate_lifetime),
            overlap=dt.timedelta(seconds=options.certificate_overlap),
        ),
    )
    manager.add_service(keeper.run)
    manager.add_service(injector.watch)
    manager.add_elected(injector.keep, lease=name)
    return keeper
