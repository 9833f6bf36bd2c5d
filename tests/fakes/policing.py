"""Real ``SourcePolicies``, which follow what a test puts into an API server on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from controllers.sourcepolicies import NAMESPACE, SourcePolicies
from crds import SOURCE_POLICY
from tests.fakes.apiserver import FakeApiServer
from tests.tools.waiting import until
from toolkit.kube.client import Client
from toolkit.kube.informer import Informer
from toolkit.objects import Json, ObjectKey

INSTALLED = "penstock-system"


@dataclass
class Process:
    """What ``SourcePolicies.follow`` needs of a manager."""

    client: Client
    namespace: str = INSTALLED
    informers: list[Informer[Any]] = field(default_factory=list)

    def add_informer(self, informer: Informer[Any]) -> None:
        """Note what is to be run."""
        self.informers.append(informer)


class Policing:
    """Policies and namespaces of a cluster, and what follows them."""

    def __init__(self, server: FakeApiServer, process: Any) -> None:
        self.sources = SourcePolicies.follow(process)
        self._server = server

    async def put(self, *entries: Json, name: str = "tenants", **spec: Any) -> None:
        """Create a policy or replace it, and wait until it is known."""
        made = self._server.put(
            SOURCE_POLICY.plural, name, "", spec={"sources": list(entries), **spec}
        )

        def known() -> bool:
            found = self.sources.policies.get(ObjectKey("", name))
            return found is not None and found.metadata.resource_version == _version(made)

        await until(known)

    async def drop(self, name: str = "tenants") -> None:
        """Delete a policy, and wait until that is known."""
        self._server.remove(SOURCE_POLICY.plural, name, "")
        await until(lambda: self.sources.policies.get(ObjectKey("", name)) is None)

    async def label(self, namespace: str, **labels: str) -> None:
        """Give a namespace these labels, and wait until they are known."""
        made = self._server.put("namespaces", namespace, "", metadata={"labels": labels})

        def known() -> bool:
            found = self.sources.namespaces.get(ObjectKey("", namespace))
            return found is not None and _version(found) == _version(made)

        await until(known)


def _version(obj: Json) -> str:
    return str(obj["metadata"]["resourceVersion"])


@asynccontextmanager
async def policing() -> AsyncIterator[Policing]:
    """Follow an empty cluster."""
    server = FakeApiServer()
    group, version, kind = SOURCE_POLICY.gvk
    server.kinds |= {
        (group, version, SOURCE_POLICY.plural): kind,
        ("", NAMESPACE.version, "namespaces"): NAMESPACE.kind,
    }
    async with server.running() as client:
        process = Process(client)
        made = Policing(server, process)
        tasks = [asyncio.create_task(informer.run()) for informer in process.informers]
        await made.sources.wait_synced()
        yield made
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
