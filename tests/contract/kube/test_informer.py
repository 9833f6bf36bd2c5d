"""The informer against a real API server, also while that is away."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest_asyncio

from controlplane.plane import ControlPlane
from tests.tools import namespaces
from tests.tools.waiting import until
from toolkit.kube.client import Client
from toolkit.kube.informer import Change, Informer
from toolkit.objects import GroupVersionKind, Json, ObjectKey

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


async def test_streaming_lists_are_used(client: Client, namespace: str) -> None:
    async with following(client, namespace=namespace) as (informer, _):
        assert informer._watch_list


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


async def test_paged_lists_and_streams_give_the_same(client: Client, namespace: str) -> None:
    for number in range(5):
        await client.create(config_map(namespace, f"cm-{number}"))

    async with (
        following(client, namespace=namespace) as (streamed, _),
        following(client, namespace=namespace) as (other, _),
    ):
        await other._fill(f"/api/v1/namespaces/{namespace}/configmaps")
        assert streamed.items().keys() == other.items().keys()
        assert len(streamed.items()) >= 5


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
