"""Who follows a resource: informers of client-go and of the Python client, and kubectl."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from kubernetes.client import CustomObjectsApi
from kubernetes.config import new_client_from_config
from kubernetes.informer import SharedInformer

from apiserver.status import GROUP
from apiserver.view import View
from tests.contract.apiserver.window import Window
from tests.fakes.toyshop import API_VERSION
from toolkit.objects import Json, ObjectKey, key_of


class Follower:
    """What an informer has told so far; ``fallen`` are objects whose version went back."""

    def __init__(self) -> None:
        self.store: dict[ObjectKey, Json] = {}
        self.synced = False
        self.fallen: list[str] = []
        self._highest: dict[str, int] = {}

    def take(self, raw: bytes) -> None:
        """Read one line."""
        line = msgspec.json.decode(raw)
        if line["type"] == "SYNCED":
            self.synced = True
            return
        self._compare(line["object"]["metadata"])
        if line["type"] == "DELETED":
            self.store.pop(key_of(line["object"]), None)
        else:
            self.store[key_of(line["object"])] = line["object"]

    def _compare(self, metadata: Json) -> None:
        uid, version = metadata["uid"], int(metadata["resourceVersion"])
        known = self._highest.setdefault(uid, version)
        if version < known:
            self.fallen.append(f"{metadata['name']}: {known} -> {version}")
        self._highest[uid] = max(known, version)

    async def same(self, view: View) -> bool:
        """Tell whether it has what is served, the labels at least: the same at all replicas."""
        known = {key: obj["metadata"]["labels"] for key, obj in self.store.items()}
        return self.synced and known == {item.key: item.labels for item in view.snapshot().items}


@contextlib.asynccontextmanager
async def followed(
    program: Path, window: Window, *more: str, resource: str = "toys"
) -> AsyncIterator[Follower]:
    """Run an informer."""
    process = await asyncio.create_subprocess_exec(
        program,
        window.control_plane.kubeconfig,
        f"{API_VERSION}/{resource}",
        *more,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    assert process.stdout is not None
    output, follower = process.stdout, Follower()

    async def read() -> None:
        async for raw in output:
            follower.take(raw)

    reading = asyncio.create_task(read())
    try:
        yield follower
    finally:
        process.kill()
        await process.wait()
        await reading


@contextlib.asynccontextmanager
async def rows(window: Window) -> AsyncIterator[dict[str, str]]:
    """Run one ``kubectl get -w``, and give what it has shown: colours by name."""
    columns = '{.type} {.object.metadata.name} {.object.spec.colour}{"\\n"}'
    process = await asyncio.create_subprocess_exec(
        window.control_plane.kubectl_program,
        f"--kubeconfig={window.control_plane.kubeconfig}",
        *("get", "toys", f"--namespace={window.namespace}", "--watch", "--output-watch-events"),
        f"--output=jsonpath={columns}",
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    output, shown = process.stdout, dict[str, str]()

    async def read() -> None:
        async for line in output:
            event, name, colour = line.decode().split()
            if event == "DELETED":
                del shown[name]
            else:
                shown[name] = colour
        assert process.returncode is not None, "the watch of kubectl ended"

    reading = asyncio.create_task(read())
    try:
        yield shown
        assert process.returncode is None
    finally:
        reading.cancel()
        process.kill()
        await process.wait()
        await asyncio.gather(reading, return_exceptions=True)


@contextlib.asynccontextmanager
async def cached(window: Window, resource: str = "toys") -> AsyncIterator[Any]:
    """Run an informer of the Python client, and give its cache."""
    api = new_client_from_config(str(window.control_plane.kubeconfig))
    read = partial(CustomObjectsApi(api).list_cluster_custom_object, GROUP, "v1alpha1", resource)

    def listed(**options: Any) -> object:
        """List as the typed clients do, which the informer is made for.

        It remembers no version of what comes as ``Any``.
        """
        found = read(**options)
        if options.get("watch"):
            return found
        metadata = SimpleNamespace(resource_version=found["metadata"]["resourceVersion"])
        return SimpleNamespace(items=found["items"], metadata=metadata)

    follower: Any = SharedInformer(listed)
    follower.start()
    try:
        yield follower.cache
    finally:
        await asyncio.to_thread(follower.stop)
        api.close()
