"""One write at the start, whose revision is greater than all that earlier processes returned.

Versions are derived from etcd's revisions (``apiserver.position``). A new process cannot know which
version earlier processes returned for an object that has not changed since, because the objects
that these versions counted may be deleted. So it writes once, and begins at the revision of that
write. ADR 29 has the reasoning.
"""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Final

from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError
from toolkit.kube.leaderelection import LEASE

logger = logging.getLogger(__name__)

START: Final = "penstock-apiserver-start"
"""The Lease that is written; no process holds it."""
_MANAGER: Final = "penstock-apiserver"
_PAUSE: Final = 1.0


async def mark(client: Client, *, namespace: str, identity: str) -> int:
    """Write the Lease and return the revision of that; tries until it works."""
    moment = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    lease = {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {"name": START, "namespace": namespace},
        "spec": {"holderIdentity": identity, "renewTime": moment},
    }
    while True:
        try:
            applied = await client.apply(lease, manager=_MANAGER)
        except ApiError as exc:
            logger.warning(
                "lease not written; retrying",
                extra={"lease": f"{namespace}/{START}", "error": str(exc)},
            )
            await asyncio.sleep(_PAUSE)
        else:
            return int(applied.object["metadata"]["resourceVersion"])
