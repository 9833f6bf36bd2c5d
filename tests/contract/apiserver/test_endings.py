"""To kubectl, a watch that we end is like one that the API server itself ends."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from apiserver.auth import standing
from tests.contract.apiserver.window import Window
from tests.tools.waiting import until
from toolkit.kube.client import Client
from toolkit.kube.errors import NoMatchError
from toolkit.objects import GroupVersionKind, Json

pytestmark = pytest.mark.asyncio(loop_scope="module")

BINDING: Final = GroupVersionKind("rbac.authorization.k8s.io", "v1", "RoleBinding")
DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
FORMS: Final = ((), ("--output=name",), ("--output-watch-events",))


class Watched:
    """One ``kubectl get -w``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def shows(self, name: str) -> None:
        """Wait until it has printed a name."""
        assert self._process.stdout is not None
        async with asyncio.timeout(30):
            while name.encode() not in (line := await self._process.stdout.readline()):
                assert line, "it ended"

    async def outcome(self, *, within: float = 30) -> tuple[int | None, bytes, bytes]:
        """Wait until it has ended by itself; return its status and what it still printed."""
        async with asyncio.timeout(within):
            said = await self._process.communicate()
        return self._process.returncode, *said


@contextlib.asynccontextmanager
async def watching(window: Window, resource: str, *form: str) -> AsyncIterator[Watched]:
    """Run ``kubectl get -w``."""
    process = await asyncio.create_subprocess_exec(
        window.control_plane.kubectl_program,
        f"--kubeconfig={window.control_plane.kubeconfig}",
        *("get", resource, f"--namespace={window.namespace}", "--watch", *form),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Watched(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest_asyncio.fixture(loop_scope="module")
async def things(admin: Client) -> AsyncIterator[Json]:
    """Define a kind that the API server keeps itself."""
    group = f"test-{secrets.token_hex(4)}.example.com"
    definition: Json = {
        "apiVersion": DEFINITION.api_version,
        "kind": DEFINITION.kind,
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    name = definition["metadata"]["name"]
    await admin.apply(definition, manager="test")

    async def listed() -> bool:
        with contextlib.suppress(NoMatchError):
            return await admin.list(_thing(definition)) == []
        return False

    await until(listed)
    yield definition
    await admin.delete(DEFINITION, name)


def _thing(things: Json) -> GroupVersionKind:
    return GroupVersionKind(things["spec"]["group"], "v1", "Thing")


async def test_kubectl_takes_our_end_as_the_api_servers(fresh_window: Window, things: Json) -> None:
    window = fresh_window
    replica = await window.start()
    await window.available()
    names = ("toys", things["metadata"]["name"])

    await make(window, things, "listed")
    async with contextlib.AsyncExitStack() as stack:
        opened = [watching(window, name, *form) for form in FORMS for name in names]
        watches = [await stack.enter_async_context(each) for each in opened]
        await asyncio.gather(*(each.shows("listed") for each in watches))
        await make(window, things, "watched")
        await asyncio.gather(*(each.shows("watched") for each in watches))
        # When a definition changes, the API server ends the watches of its objects.
        known = things["spec"]["names"] | {"shortNames": ["th"]}
        changed = things | {"spec": things["spec"] | {"names": known}}
        await window.admin.apply(changed, manager="test")
        await replica.stop()
        ended = [await each.outcome() for each in watches]

    assert ended == [(0, b"", b"")] * len(watches)


async def make(window: Window, things: Json, name: str) -> None:
    """Make a toy and a thing."""
    window.shop.put(window.namespace, name)
    gvk, metadata = _thing(things), {"name": name, "namespace": window.namespace}
    thing = {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata}
    await window.admin.apply(thing, manager="test")


@pytest.mark.slow  # rights are asked about once a minute
async def test_a_watch_ends_when_its_right_is_withdrawn(fresh_window: Window) -> None:
    window = fresh_window
    rule = {"apiGroups": ["gitops.penstock.dev"], "resources": ["toys"], "verbs": ["list", "watch"]}
    window.shop.put(window.namespace, "early")
    await window.start()
    await window.available()
    await window.grant("reader", rule, namespace=window.namespace)
    as_reader = f"--kubeconfig={window.control_plane.kubeconfig_as('reader')}"

    async with (
        watching(window, "toys", as_reader) as reader,
        watching(window, "toys") as administrator,
    ):
        await reader.shows("early")
        await administrator.shows("early")
        # What comes later shows that the watches are open.
        window.shop.put(window.namespace, "watched")
        await reader.shows("watched")
        await administrator.shows("watched")
        name = f"test-reader-{window.namespace}"
        await window.admin.delete(BINDING, name, window.namespace)
        status, _, complaint = await reader.outcome(within=2 * standing.SECONDS)
        window.shop.put(window.namespace, "late")
        await administrator.shows("late")

    again = await window.refused("get", "toys", as_reader)
    assert (status, complaint) == (0, b"")
    assert "forbidden" in again
