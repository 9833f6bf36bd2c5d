"""Clusters of spec.kubeConfig: what happens to one stays with it, and a new one is a new one."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import yaml
from msgspec import structs

from controllers.applying.clusters import Clusters
from controllers.kustomize import memory
from controllers.kustomize.inputs import Inputs
from controllers.kustomize.sources import Mount, Sources
from crds.kustomize import Kustomization
from crds.meta import Artifact
from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.evaluating import NoEvaluator
from tests.tools import sessions
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError
from toolkit.kube.remote import RemoteClients
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
KEY = ObjectKey("default", "app")
SOURCES = Sources(
    mounts=(
        Mount(
            path="",
            ref=ObjectRef(GroupVersionKind("x", "v1", "Y"), "default", "app"),
            artifact=Artifact(
                digest="sha256:1", last_update_time="", path="p", revision="r", url="u"
            ),
        ),
    )
)


def kustomization(**spec: Any) -> Kustomization:
    body = {
        "metadata": {"name": KEY.name, "namespace": KEY.namespace},
        "spec": {"interval": "1m", "prune": True, **spec},
    }
    return msgspec.convert(body, Kustomization)


def put_kubeconfig(server: FakeApiServer, token: str) -> None:
    kubeconfig = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "x", "user": {"token": token}}],
    }
    value = base64.b64encode(yaml.safe_dump(kubeconfig).encode()).decode()
    server.put("secrets", "remote", data={"value": value})


REMOTE = kustomization(kubeConfig={"secretRef": {"name": "remote"}})


def follow(
    scenario: Callable[[Clusters], Awaitable[Any]], server: FakeApiServer, *, size: int = 100
) -> Any:
    """Run a scenario while all clusters are followed, ``size`` more of them than are in use."""

    async def main() -> Any:
        async with server.running() as own, RemoteClients(own, size=size) as remotes:
            clusters = Clusters(
                own, remotes, lambda *_: None, group="x", manager="y", evaluates=NoEvaluator()
            )
            running = asyncio.create_task(clusters.run())
            try:
                return await scenario(clusters), running.done()
            finally:
                running.cancel()
                await asyncio.wait([running])

    return virtualtime.run(main)


def test_a_cluster_that_cannot_be_followed_leaves_the_others_alone() -> None:
    server = FakeApiServer()
    put_kubeconfig(server, "a\nb")  # no header can carry it

    async def scenario(clusters: Clusters) -> bool:
        clusters.local.live.ensure(KEY, [CONFIG_MAP])
        async with clusters.of(REMOTE) as remote:
            remote.live.ensure(KEY, [CONFIG_MAP])
        await asyncio.sleep(60)
        return await clusters.local.live.wait_synced(KEY, timeout=1)

    synced, ended = follow(scenario, server)

    assert synced
    assert not ended


def test_a_changed_kubeconfig_means_to_apply_again() -> None:
    server = FakeApiServer()
    given = Inputs(variables={}, keys=None, versions=())

    async def scenario(clusters: Clusters) -> list[str]:
        prints = []
        for token in ("a", "a", "b"):
            put_kubeconfig(server, token)
            async with clusters.of(REMOTE) as cluster:
                number = cluster.number
            settings = memory.settings(REMOTE, given, cluster=number)
            prints.append(memory.fingerprint(settings, SOURCES))
        return prints

    (first, same, other), _ = follow(scenario, server)

    assert first == same
    assert other != first


def named(name: str) -> Kustomization:
    metadata = structs.replace(REMOTE.metadata, name=name)
    return structs.replace(REMOTE, metadata=metadata)


async def refused(client: Client) -> str:
    """Return why nothing can be read: nobody listens there."""
    with pytest.raises(ApiError) as caught:
        await client.get(CONFIG_MAP, "a", "default")
    return str(caught.value)


def test_a_cluster_that_somebody_uses_stays_open_until_nobody_does() -> None:
    server = FakeApiServer()

    async def enter(clusters: Clusters, token: str) -> Client:
        put_kubeconfig(server, token)
        async with clusters.of(named(token)) as cluster:
            cluster.live.ensure(ObjectKey("default", token), [CONFIG_MAP])
        return cluster.client

    async def scenario(clusters: Clusters) -> list[str]:
        before = sessions.opened()
        first = await enter(clusters, "a")
        await asyncio.sleep(60)
        second = await enter(clusters, "b")
        while_used = await refused(first)
        clusters.forget(ObjectKey("default", "a"))
        clusters.forget(ObjectKey("default", "b"))
        await asyncio.sleep(1)
        await enter(clusters, "c")
        clusters.forget(ObjectKey("default", "c"))
        assert len(sessions.opened() - before) <= 1
        return [while_used, await refused(first), await refused(second)]

    (while_used, *afterwards), _ = follow(scenario, server, size=0)

    assert "cannot connect" in while_used
    assert all("is closed" in why for why in afterwards)


def test_a_kustomization_that_is_gone_keeps_its_cluster_until_its_pass_ends() -> None:
    server = FakeApiServer()

    async def scenario(clusters: Clusters) -> list[str]:
        put_kubeconfig(server, "a")
        async with clusters.of(REMOTE) as cluster:
            clusters.forget(KEY)
            await asyncio.sleep(1)
            put_kubeconfig(server, "b")
            async with clusters.of(REMOTE):
                clusters.forget(KEY)
            in_its_pass = await refused(cluster.client)
        return [in_its_pass, await refused(cluster.client)]

    (in_its_pass, afterwards), _ = follow(scenario, server, size=0)

    assert "cannot connect" in in_its_pass
    assert "is closed" in afterwards
