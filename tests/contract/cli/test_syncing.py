"""A cluster that follows a repository, where the tests act as the controllers."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from cli import session
from cli.bootstrap import syncing
from cli.bootstrap.files import Sync
from cli.errors import FailedError
from tests.contract.cli.conftest import REVISION, Cluster
from tests.contract.cli.controller import REQUESTED, answer
from toolkit.kube import client, config
from toolkit.objects import Json

LATER = "main@sha1:" + "f" * 40
SECONDS = 30.0


@pytest.fixture
def sync(cluster: Cluster) -> Sync:
    return Sync(
        namespace=cluster.namespace,
        url="https://git.example.com/fleet",
        branch="main",
        path="clusters/prod",
        secret="",
        interval="60s",
    )


@pytest_asyncio.fixture
async def opened(cluster: Cluster) -> AsyncIterator[session.Session]:
    async with client.Client.open(config.from_environment(str(cluster.plane.kubeconfig))) as api:
        yield session.Session(api=api, namespace=cluster.namespace, timeout=SECONDS)


def state(cluster: Cluster, revision: str, status: str = "True", **more: Any) -> dict[str, Any]:
    conditions = cluster.ready(status, "it is so", reason=more.pop("reason", "Succeeded"))
    artifact = {**cluster.artifact, "revision": revision}
    applied = {"artifact": artifact} if more.pop("source", False) else {}
    return {
        "observedGeneration": 1,
        "conditions": [*conditions, *more.pop("conditions", ())],
        **(applied or {"lastAppliedRevision": revision}),
    }


async def play(cluster: Cluster, kind: str, *states: dict[str, Any]) -> None:
    """Answer the request for a reconciliation with each of the states, one after the other."""
    for each in states:
        await asyncio.to_thread(answer, cluster, kind, cluster.namespace, each)


async def test_credentials_are_written_where_they_differ(
    cluster: Cluster, opened: session.Session
) -> None:
    place = (opened.api, cluster.namespace, "flux-system")
    path = f"/api/v1/namespaces/{cluster.namespace}/secrets/flux-system"
    assert await syncing.credentials(*place) == {}

    await syncing.keep_credentials(*place, {"identity": b"key", "known_hosts": b"hosts"})
    first = cluster.administrator.send("GET", path)
    await syncing.keep_credentials(*place, {"identity": b"key", "known_hosts": b"hosts"})
    second = cluster.administrator.send("GET", path)
    await syncing.keep_credentials(*place, {"username": b"git", "password": b"token"})

    assert first == second
    assert await syncing.credentials(*place) == {"username": b"git", "password": b"token"}


async def test_what_the_cluster_follows_is_changed_where_it_differs(
    cluster: Cluster, opened: session.Session, sync: Sync
) -> None:
    await syncing.write(opened.api, *sync.objects())
    first = cluster.read("gitrepository", cluster.namespace)
    patched = {"spec": {"ignore": "/docs"}}
    cluster.administrator.send(
        "PATCH",
        f"/apis/source.toolkit.fluxcd.io/v1/namespaces/{cluster.namespace}/gitrepositories/"
        f"{cluster.namespace}",
        patched,
        content="application/merge-patch+json",
    )

    await syncing.write(opened.api, *sync.objects())
    second = cluster.read("gitrepository", cluster.namespace)
    await syncing.write(opened.api, *replace(sync, branch="next").objects())
    third = cluster.read("gitrepository", cluster.namespace)

    assert second["spec"] == {**first["spec"], "ignore": "/docs"}
    assert second["metadata"]["generation"] == first["metadata"]["generation"] + 1
    assert third["spec"]["ref"] == {"branch": "next"}
    assert third["spec"]["ignore"] == "/docs"


async def test_a_failure_that_is_tried_again_is_waited_through(
    cluster: Cluster, opened: session.Session, sync: Sync
) -> None:
    await syncing.write(opened.api, *sync.objects())
    failed = state(cluster, REVISION, "False", reason="GitOperationFailed", source=True)
    stored = state(cluster, REVISION, source=True)

    async with asyncio.TaskGroup() as group:
        group.create_task(syncing.require(opened, sync, REVISION))
        group.create_task(play(cluster, "gitrepository", failed, stored))
        group.create_task(play(cluster, "kustomization", state(cluster, REVISION)))


async def test_a_failure_that_is_not_tried_again_ends_the_command(
    cluster: Cluster, opened: session.Session, sync: Sync
) -> None:
    await syncing.write(opened.api, *sync.objects())
    stalled = cluster.ready("True", "the URL is none", reason="URLInvalid")[0]
    stalled["type"] = "Stalled"
    failed = state(
        cluster, REVISION, "False", reason="URLInvalid", source=True, conditions=[stalled]
    )

    playing = asyncio.ensure_future(play(cluster, "gitrepository", failed))
    with pytest.raises(FailedError, match="reconciliation failed: it is so"):
        await syncing.require(opened, sync, REVISION)
    await playing


async def test_a_branch_that_has_moved_on_is_followed(
    cluster: Cluster,
    opened: session.Session,
    sync: Sync,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await syncing.write(opened.api, *sync.objects())

    async with asyncio.TaskGroup() as group:
        group.create_task(syncing.require(opened, sync, REVISION))
        group.create_task(play(cluster, "gitrepository", state(cluster, LATER, source=True)))
        group.create_task(play(cluster, "kustomization", state(cluster, LATER)))

    assert f"went on to {LATER}: the branch has later commits" in capsys.readouterr().err


async def test_what_is_at_the_revision_is_not_asked_again(
    cluster: Cluster, opened: session.Session, sync: Sync
) -> None:
    await syncing.write(opened.api, *sync.objects())
    name = cluster.namespace
    cluster.patch_status("gitrepository", name, {"status": state(cluster, REVISION, source=True)})
    cluster.patch_status("kustomization", name, {"status": state(cluster, REVISION)})
    before = [cluster.read(kind, name) for kind in ("gitrepository", "kustomization")]

    await syncing.require(opened, sync, REVISION)

    assert [cluster.read(kind, name) for kind in ("gitrepository", "kustomization")] == before


def reconciled(cluster: Cluster, kind: str, seen: Json, **status: Any) -> None:
    """Have the object, as it was ``seen``, Ready for its generation and its last request."""
    found = seen["metadata"]
    generation = found["generation"]
    handled = found.get("annotations", {}).get(REQUESTED, "")
    ready = cluster.ready("True", "it is so", generation=generation)
    fields = {"observedGeneration": generation, "lastHandledReconcileAt": handled}
    body = {"status": {**fields, "conditions": ready, **status}}
    cluster.patch_status(kind, cluster.namespace, body)


async def test_a_kustomization_rests_while_its_source_changes(
    cluster: Cluster, opened: session.Session, sync: Sync
) -> None:
    """A pass of it that has begun puts the source back, once."""
    name, done = cluster.namespace, threading.Event()
    later = replace(sync, url="https://git.example.org/moved")
    suspended: list[bool] = []

    def control() -> None:
        while not done.wait(0.02):
            # A controller reports what it has read, not what was written meanwhile.
            source = cluster.read("gitrepository", name)
            follower = cluster.read("kustomization", name)
            url, rests = source["spec"]["url"], follower["spec"].get("suspend", False)
            if url == later.url and not suspended:
                suspended.append(rests)
                cluster.patch("gitrepository", name, {"spec": {"url": sync.url}})
                continue
            revision = REVISION if url == later.url else LATER
            artifact = {**cluster.artifact, "revision": revision}
            reconciled(cluster, "gitrepository", source, artifact=artifact)
            if not rests:
                reconciled(cluster, "kustomization", follower, lastAppliedRevision=revision)

    await syncing.write(opened.api, *sync.objects())
    controlling = asyncio.ensure_future(asyncio.to_thread(control))
    await syncing.require(opened, later, REVISION)
    done.set()
    await controlling

    assert suspended == [True]
    assert cluster.read("gitrepository", name)["spec"]["url"] == later.url
    follower = cluster.read("kustomization", name)
    assert "suspend" not in follower["spec"]
    assert follower["status"]["lastAppliedRevision"] == REVISION
