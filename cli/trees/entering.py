"""Connect to the cluster of an applier (``spec.kubeConfig``), with the user's permissions.

The kubeconfig is that in the Secret of the applier, if the user may read the Secret. It belongs to
a tenant, so it is parsed as in the controllers (``toolkit.kube.remote``), and its server may be
hostile: callers limit size and time of reads.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from cli import errors
from crds import misfits
from crds.meta import KubeConfigReference
from toolkit.kube.client import Client
from toolkit.kube.remote import RemoteClients
from toolkit.objects import Json, dig

FAR: Final = "on another cluster (spec.kubeConfig)"


@asynccontextmanager
async def entered(remotes: RemoteClients, namespace: str, applier: Json) -> AsyncIterator[Client]:
    """Give a client of the cluster that an applier of this namespace applies to.

    Raises:
        UsageError: the applier names no Secret.
        PenstockError: the Secret cannot be read, or the cluster does not answer.
    """
    try:
        named = msgspec.convert(dig(applier, "spec", "kubeConfig"), KubeConfigReference)
    except msgspec.ValidationError as exc:
        raise errors.UsageError(f"spec.kubeConfig cannot be read: {misfits.told(exc)}") from exc
    if named.secret_ref is None:
        raise errors.UsageError(
            "spec.kubeConfig uses a ServiceAccount: use kubectl with that cluster"
        )
    async with remotes.client(namespace, named) as api:
        await api.request("GET", "/version")
        yield api
