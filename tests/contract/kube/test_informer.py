"""The informer against a real API server, also while that is away."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest_asyncio

from controlplane.plane import ControlPlane
from tests.tools import namespaces
from tests.tools.waiting import until
from toolkit.kube import config, transport
from toolkit.kube.client import Client
from toolkit.kube.informer import Change, Informer
from toolkit.objects import GroupVersionKind, Json, ObjectKey
from toolkit.remote.http.reach import Reach

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


@pytest_asyncio.fixture
async def namespace(client: Client, namespace: str) -> str:
    """Give a namespace that has got the ConfigMap which each of them gets a moment later."""
    await namespaces.inhabited(client, namespace)
    return namespace


@asynccontextmanager
async def following(
    client: Client, **options: Any
) -> AsyncIterator[tuple[Informer[Json], list[Change[Json]]]]:
    """Run an informer of ConfigMaps and note what it reports."""
    decode: Callable[[bytes], Json] = msgspec.json.Decoder(dict[str, Any]).decode
    informer = Informer(client, CONFIG_MAP, decode=decode, **options)
    changes: list[Change[Json]] = []
    informer.subscribe(changes.append)
    running = asyncio.create_task(informer.run())
    try:
        await asyncio.wait_for(informer.wait_synced(), 30)
        yield informer, changes
    finally:
        running.cancel()
        await asyncio.wait([running])


class Wire(transport.Transport):
    """A transport that notes how objects are asked for, to a server with or without WatchList."""

    def __init__(self, cluster: config.ClusterConfig, *, streams: bool) -> None:
        super().__init__(
            cluster,
            qps=0,
            burst=0,
            timeout=30,
            patience=None,
            max_body=1 << 30,
            reach=Reach.ANYWHERE,
        )
        self.asked: list[str] = []
        self._streams = streams

    async def aclose(self) -> None:
        await self.close()

    async def send(self, request: transport.Request) -> transport.Reply:
        if request.path.endswith("/configmaps"):
            self.asked.append("list")
        return await super().send(request)

    @asynccontextmanager
    async def stream(self, request: transport.Request) -> AsyncIterator[AsyncIterator[bytes]]:
        initial = "sendInitialEvents" in request.query
        self.asked.append("stream" if initial else "watch")
        if initial and not self._streams:
            # It is how such a server answers: the option is not one of this version.
            query = {**request.query, "resourceVersionMatch": "Nonsense"}
            request = dataclasses.replace(request, query=query)
        async with super().stream(request) as chunks:
            yield chunks


def over(wire: Wire) -> Client:
    return Client(wire, {}, namespace="default")


def config_map(namespace: str, name: str, **data: str) -> Json:
    meta = {"name": name, "namespace": namespace, "labels": {"color": data.get("color", "none")}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


async def test_it_follows_every_change_once(client: Client, namespace: str) -> None:
    await client.create(config_map(namespace, "before"))

    async with following(client, namespace=namespace) as (informer, changes):
        before = informer.get(ObjectKey(namespace, "before"))
        changes.clear()
        await client.create(config_map(namespace, "a", x="1"))
        await client.apply(config_map(namespace, "a", x="2"), manager="m")
        await client.delete(CONFIG_MAP, "a", namespace)
        await until(lambda: changes and changes[-1].type == "DELETED")

    assert before
    assert [change.type for change in changes] == ["ADDED", "MODIFIED", "DELETED"]
    assert changes[1].old
    assert changes[1].new
    assert changes[1].old["data"] == {"x": "1"}
    assert changes[1].new["data"] == {"x": "2"}


async def test_what_exists_is_streamed_and_not_listed(
    control_plane: ControlPlane, namespace: str
) -> None:
    cluster = config.from_environment(str(control_plane.kubeconfig))
    wire = Wire(cluster, streams=True)
    async with contextlib.aclosing(wire), following(over(wire), namespace=namespace) as (seen, _):
        assert seen.get(ObjectKey(namespace, "kube-root-ca.crt"))

    assert wire.asked == ["stream"]


async def test_a_selector_makes_objects_come_and_go(client: Client, namespace: str) -> None:
    selector = "color=red"

    async with following(client, namespace=namespace, label_selector=selector) as (_, changes):
        await client.apply(config_map(namespace, "a", color="blue"), manager="m")
        await client.apply(config_map(namespace, "a", color="red"), manager="m")
        await client.apply(config_map(namespace, "a", color="blue"), manager="m")
        await until(lambda: changes and changes[-1].type == "DELETED")

    assert [change.type for change in changes] == ["ADDED", "DELETED"]


async def test_metadata_only_leaves_the_data_at_the_server(client: Client, namespace: str) -> None:
    await client.create(config_map(namespace, "a", secret="x"))

    async with following(client, namespace=namespace, metadata_only=True) as (informer, changes):
        seen = informer.get(ObjectKey(namespace, "a"))
        await client.create(config_map(namespace, "b", secret="x"))
        await until(lambda: changes[-1].key.name == "b")

    assert seen
    assert seen["kind"] == "PartialObjectMetadata"
    assert "data" not in seen
    assert changes[-1].new
    assert "data" not in changes[-1].new


async def test_a_server_without_streaming_lists_is_listed_and_then_followed(
    client: Client, control_plane: ControlPlane, namespace: str
) -> None:
    for number in range(5):
        await client.create(config_map(namespace, f"cm-{number}"))
    wire = Wire(config.from_environment(str(control_plane.kubeconfig)), streams=False)

    async with (
        contextlib.aclosing(wire),
        following(client, namespace=namespace) as (streamed, _),
        following(over(wire), namespace=namespace) as (listed, changes),
    ):
        assert listed.items().keys() == streamed.items().keys()
        assert ObjectKey(namespace, "cm-4") in listed.items()
        await client.create(config_map(namespace, "later"))
        await until(lambda: changes[-1].key.name == "later")

    assert wire.asked[:3] == ["stream", "list", "watch"]


async def test_it_recovers_by_itself_when_the_api_server_comes_back(
    client: Client, control_plane: ControlPlane, namespace: str
) -> None:
    async with following(client, namespace=namespace) as (informer, changes):
        await client.create(config_map(namespace, "a"))
        await until(lambda: informer.get(ObjectKey(namespace, "a")))
        await asyncio.to_thread(control_plane.stop_component, "kube-apiserver")
        await until(lambda: informer.last_error is not None)
        await asyncio.to_thread(control_plane.start_component, "kube-apiserver")
        changes.clear()
        await client.create(config_map(namespace, "b"))
        await until(lambda: informer.get(ObjectKey(namespace, "b")))

    assert [(change.type, change.key.name) for change in changes] == [("ADDED", "b")]
    assert informer.last_error is None
