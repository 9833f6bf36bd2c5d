"""Nobody who follows a resource notices that our certificate is another one."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kubernetes.client import CustomObjectsApi
from kubernetes.config import new_client_from_config
from kubernetes.informer import SharedInformer

from apiserver.registration import NAME
from apiserver.status import GROUP
from tests.contract.apiserver.conftest import Window
from tests.contract.apiserver.test_clientgo import followed
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind

SECRET = GroupVersionKind("", "v1", "Secret")
CHANGES = 1000


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


async def test_all_who_follow_stay_in_sync_while_the_certificate_is_replaced(
    informer_program: Path, window: Window
) -> None:
    await window.start()
    await window.available()
    before = await served(window)

    async with (
        followed(informer_program, window) as informer,
        cached(window) as cache,
        rows(window) as shown,
    ):

        async def same() -> bool:
            items = window.shop.view.snapshot().items
            colours = {item.key.name: item.obj["spec"]["colour"] for item in items}
            known = {toy["metadata"]["name"]: toy["spec"]["colour"] for toy in cache.list()}
            return known == shown == colours and await informer.same(window.shop.view)

        window.shop.put(window.namespace, "first")
        await window.until(same)
        await renew(window)
        made = 0
        async with asyncio.timeout(60):
            while made < CHANGES or await served(window) == before:
                change(window, made)
                made += 1
                if made % 20 == 0:
                    await asyncio.sleep(0.2)
        for number in range(20):  # those that only the new certificate has seen
            change(window, made + number)
        await window.until(same)


def change(window: Window, number: int) -> None:
    window.shop.put(window.namespace, f"toy-{number % 50}", colour=f"c{number}")
    if number % 7 == 0:
        window.shop.remove(window.namespace, f"toy-{number % 50}")


async def served(window: Window) -> str:
    """Return the certificate that a new connection is shown."""
    return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", window.port))


async def renew(window: Window) -> None:
    """Take the certificates away, authority and all, and wait for others."""
    name = f"{NAME}-certificates"
    before = await window.admin.get(SECRET, name, window.namespace)
    await window.admin.delete(SECRET, name, window.namespace)

    async def there() -> bool:
        with contextlib.suppress(NotFoundError):
            now = await window.admin.get(SECRET, name, window.namespace)
            return bool(now["data"] != before["data"])
        return False

    await window.until(there)
