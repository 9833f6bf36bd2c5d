"""Clusters of spec.kubeConfig: what happens to one stays with it, and a new one is a new one."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import yaml

from controllers.kustomize import memory
from controllers.kustomize.clusters import Clusters
from controllers.kustomize.inputs import Inputs
from controllers.kustomize.sources import Mount, Sources
from crds.kustomize import Kustomization
from crds.meta import Artifact
from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
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


def follow(scenario: Callable[[Clusters], Awaitable[Any]], server: FakeApiServer) -> Any:
    """Run a scenario while all clusters are followed."""

    async def main() -> Any:
        async with server.running() as own, RemoteClients(own) as remotes:
            clusters = Clusters(own, remotes, lambda *_: None)
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
        remote = await clusters.of(REMOTE)
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
            cluster = await clusters.of(REMOTE)
            prints.append(memory.fingerprint(REMOTE, SOURCES, given, cluster=cluster.number))
        return prints

    (first, same, other), _ = follow(scenario, server)

    assert first == same
    assert other != first
