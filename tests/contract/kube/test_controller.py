"""The controller on real GitRepositories: what the API server accepts, stores and sends back."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
import pytest_asyncio

import crds
from controlplane.plane import ControlPlane
from crds.source import GitRepository
from tests.tools.waiting import until
from toolkit.errors import StalledError, TransientError
from toolkit.events import Recorder
from toolkit.kube.client import Client
from toolkit.kube.controller import Controller, ControllerOptions, Outcome, Reconciliation
from toolkit.kube.informer import Change, Informer
from toolkit.kube.reconciliation import FINALIZER
from toolkit.kube.writer import Writer
from toolkit.objects import GroupVersionKind, Json, ObjectKey

pytestmark = pytest.mark.usefixtures("definitions")

Pass = Reconciliation[GitRepository]
Script = Callable[[Pass], Awaitable[Outcome]]
GVK = GroupVersionKind(*crds.GIT_REPOSITORY.gvk)
EVENT = GroupVersionKind("", "v1", "Event")


class Reconciler:
    """Passes as a test scripts them."""

    def __init__(self) -> None:
        self.triggers: list[frozenset[str]] = []
        self.passes: list[str] = []
        self.finalized: list[str] = []
        self.script: Script = succeed

    async def reconcile(self, rec: Pass) -> Outcome:
        self.triggers.append(rec.triggers)
        self.passes.append(rec.key.name)
        return await self.script(rec)

    async def finalize(self, rec: Pass) -> None:
        self.finalized.append(rec.key.name)


async def succeed(rec: Pass) -> Outcome:
    rec.revision = "main@sha1:abc"
    await rec.progress("building")
    return Outcome(message="stored artifact", requeue_after=3600)


@pytest_asyncio.fixture
async def reconciler(client: Client, namespace: str) -> AsyncIterator[Reconciler]:
    """Run a controller over the test's namespace."""
    subject = Reconciler()
    recorder = Recorder(client, controller="source-controller")
    controller = Controller(
        kind=crds.GIT_REPOSITORY,
        client=client,
        reconcile=subject.reconcile,
        finalize=subject.finalize,
        options=ControllerOptions(namespace=namespace, min_retry_delay=0.05, grace=5),
        recorder=recorder,
        field_manager="gotk-source-controller",
    )
    background = [asyncio.create_task(run()) for run in (controller.informer.run, recorder.run)]
    running = asyncio.create_task(controller.run())
    await controller.informer.wait_synced()
    yield subject
    await controller.stop()
    for task in background:
        task.cancel()
    await asyncio.wait([running, *background])


class Repository:
    """One GitRepository as its user sees it."""

    def __init__(self, client: Client, control_plane: ControlPlane, namespace: str) -> None:
        self.client = client
        self.plane = control_plane
        self.namespace = namespace

    async def create(self, name: str = "repo", **spec: Any) -> Json:
        return await self.client.create(
            {
                "apiVersion": GVK.api_version,
                "kind": GVK.kind,
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"url": "https://example.com/repo", "interval": "10m"} | spec,
            }
        )

    async def get(self) -> Json:
        return await self.client.get(GVK, "repo", self.namespace)

    async def until(self, condition: Callable[[Json], object]) -> Json:
        async def look() -> Json | None:
            obj = await self.get()
            return obj if condition(obj) else None

        found: Json = await until(look)
        return found

    async def kubectl(self, *arguments: str) -> str:
        return await asyncio.to_thread(
            self.plane.kubectl, *arguments, f"--namespace={self.namespace}"
        )


@pytest.fixture
def repository(client: Client, control_plane: ControlPlane, namespace: str) -> Repository:
    """Give the test its GitRepository, which it creates itself."""
    return Repository(client, control_plane, namespace)


def ready(obj: Json) -> Json:
    entries = obj.get("status", {}).get("conditions", [])
    return next((entry for entry in entries if entry["type"] == "Ready"), {"status": ""})


async def test_a_new_object_becomes_ready(reconciler: Reconciler, repository: Repository) -> None:
    await repository.create()

    obj = await repository.until(lambda obj: ready(obj)["status"] == "True")

    # What its own write of the status would lead to comes before the pass over a later object.
    await repository.create("later")
    await until(lambda: len(reconciler.triggers) > 1)
    again = await repository.get()
    assert obj["metadata"]["finalizers"] == [FINALIZER]
    assert obj["status"]["observedGeneration"] == 1
    assert [entry["type"] for entry in obj["status"]["conditions"]] == ["Ready"]
    assert again["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]
    assert reconciler.passes[:2] == ["repo", "later"]
    managers = {(m["manager"], m.get("subresource")) for m in obj["metadata"]["managedFields"]}
    assert ("gotk-source-controller", "status") in managers


async def test_kubectl_sees_flux_s_columns(reconciler: Reconciler, repository: Repository) -> None:
    await repository.create()
    await repository.until(lambda obj: ready(obj)["status"] == "True")

    table = await repository.kubectl("get", "gitrepo", "repo")

    header, row = table.splitlines()
    assert header.split() == ["NAME", "URL", "AGE", "READY", "STATUS"]
    assert row.split()[3:] == ["True", "stored", "artifact"]
    assert reconciler.triggers


async def test_a_requested_reconcile_is_acknowledged(
    reconciler: Reconciler, repository: Repository
) -> None:
    await repository.create()
    await repository.until(lambda obj: ready(obj)["status"] == "True")

    await repository.kubectl("annotate", "gitrepo", "repo", "reconcile.fluxcd.io/requestedAt=now")

    await repository.until(lambda obj: obj["status"].get("lastHandledReconcileAt") == "now")
    assert reconciler.triggers == [{"spec"}, {"requested"}]


async def test_suspend_and_resume(reconciler: Reconciler, repository: Repository) -> None:
    await repository.create(suspend=True)
    before = await repository.until(lambda obj: obj["status"] == {"observedGeneration": 1})

    await repository.kubectl(
        "patch", "gitrepo", "repo", "--type=merge", '-p={"spec":{"suspend":false}}'
    )

    await repository.until(lambda obj: ready(obj)["status"] == "True")
    assert before["metadata"]["finalizers"] == ["finalizers.fluxcd.io"]
    assert len(reconciler.triggers) == 1


async def test_failures_show_and_clear(reconciler: Reconciler, repository: Repository) -> None:
    async def fail(_: Pass) -> Outcome:
        raise TransientError("no route to host", reason="GitOperationFailed")

    async def stall(_: Pass) -> Outcome:
        raise StalledError("bad url", reason="URLInvalid")

    reconciler.script = fail
    await repository.create()
    failing = await repository.until(lambda obj: ready(obj)["status"] == "False")
    reconciler.script = stall
    stalled = await repository.until(lambda obj: ready(obj).get("reason") == "URLInvalid")
    reconciler.script = succeed
    await repository.client.patch(
        GVK, "repo", repository.namespace, {"spec": {"timeout": "30s"}}, strategy="merge"
    )
    fine = await repository.until(lambda obj: ready(obj)["status"] == "True")

    assert [entry["type"] for entry in failing["status"]["conditions"]] == ["Reconciling", "Ready"]
    assert [entry["type"] for entry in stalled["status"]["conditions"]] == ["Stalled", "Ready"]
    assert [entry["type"] for entry in fine["status"]["conditions"]] == ["Ready"]
    assert fine["status"]["observedGeneration"] == 2


async def test_what_lost_its_finalizer_is_known_before_the_watch_tells(
    client: Client, repository: Repository
) -> None:
    await repository.create()
    held: Json = {"metadata": {"finalizers": [FINALIZER]}}
    await client.patch(GVK, "repo", repository.namespace, held, strategy="merge")
    await client.delete(GVK, "repo", repository.namespace)
    informer = Informer(
        client,
        GVK,
        decode=msgspec.json.Decoder(GitRepository).decode,
        namespace=repository.namespace,
    )
    watching = asyncio.create_task(informer.run())
    await informer.wait_synced()
    watching.cancel()
    await asyncio.wait([watching])
    writer = Writer(client, informer, GitRepository, field_manager="test", finalizer=FINALIZER)
    key = ObjectKey(repository.namespace, "repo")
    before = writer.current(key)
    assert before is not None
    assert before.metadata.finalizers == [FINALIZER]

    await writer.finalizer(before, present=False)

    after = writer.current(key)
    assert after is not None
    assert after.metadata.finalizers == []
    writer.saw(Change("DELETED", key, before, None))
    assert writer.current(key) is before  # the cache has the last word


@pytest.mark.usefixtures("reconciler")
async def test_a_status_is_put_without_touching_the_rest(
    client: Client, repository: Repository
) -> None:
    await repository.create()
    named: Json = {"apiVersion": "v1", "kind": "ConfigMap"}
    meta = {"name": "owner", "namespace": repository.namespace}
    made = await client.create({**named, "metadata": meta})
    owner = {**named, "name": "owner", "uid": made["metadata"]["uid"]}
    marks: Json = {"annotations": {"by": "user"}, "ownerReferences": [owner]}
    before = await client.patch(
        GVK, "repo", repository.namespace, {"metadata": marks}, strategy="merge", manager="user"
    )

    obj = await repository.until(lambda obj: ready(obj)["status"] == "True")

    assert obj["spec"] == before["spec"]
    assert obj["metadata"]["annotations"] == marks["annotations"]
    assert obj["metadata"]["ownerReferences"] == marks["ownerReferences"]
    assert obj["metadata"]["generation"] == before["metadata"]["generation"]
    owned = {
        (entry["manager"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in obj["metadata"]["managedFields"]
    }
    writes = [fields for (_, part), fields in owned.items() if part == "status"]
    assert [set(fields) for fields in writes] == [{"f:status"}]
    assert "f:spec" in str(owned)


async def test_a_deleted_object_is_finalized_and_goes(
    reconciler: Reconciler, repository: Repository
) -> None:
    await repository.create()
    await repository.until(lambda obj: ready(obj)["status"] == "True")

    await repository.kubectl("delete", "gitrepo", "repo", "--timeout=20s")

    assert reconciler.finalized == ["repo"]
    assert "repo" not in await repository.kubectl("get", "gitrepo")


async def test_repeated_failures_are_one_counted_event(
    reconciler: Reconciler, repository: Repository
) -> None:
    async def fail(rec: Pass) -> Outcome:
        rec.revision = "main@sha1:abc"
        raise TransientError("no route to host", reason="GitOperationFailed")

    reconciler.script = fail
    await repository.create()
    await until(lambda: len(reconciler.triggers) >= 4)

    async def told() -> list[Json]:
        events = json.loads(await repository.kubectl("get", "events", "-o", "json"))["items"]
        found = [each for each in events if each["involvedObject"]["kind"] == "GitRepository"]
        return found if sum(each["count"] for each in found) >= 3 else []

    (event,) = await until(told)
    assert event["type"] == "Warning"
    assert event["reason"] == "GitOperationFailed"
    assert event["count"] >= 3
    assert event["metadata"]["annotations"] == {
        "source.toolkit.fluxcd.io/revision": "main@sha1:abc"
    }


async def test_an_old_pass_does_not_write_on_a_namesake(
    reconciler: Reconciler, repository: Repository
) -> None:
    released = asyncio.Event()
    replaced = asyncio.Event()

    async def linger(rec: Pass) -> Outcome:
        if len(reconciler.triggers) == 1:
            released.set()
            await replaced.wait()
            rec.status({"observedIgnore": "of the old one"})
            return Outcome(message="old", requeue_after=3600)
        return Outcome(message="new", requeue_after=3600)

    reconciler.script = linger
    await repository.create()
    await released.wait()
    key = ObjectKey(repository.namespace, "repo")
    strip: Json = {"metadata": {"finalizers": []}}
    await repository.client.patch(GVK, key.name, key.namespace, strip, strategy="merge")
    await repository.client.delete(GVK, key.name, key.namespace)
    await repository.create()
    replaced.set()

    obj = await repository.until(lambda obj: ready(obj).get("message") == "new")

    assert obj["metadata"]["finalizers"] == [FINALIZER]
    assert "observedIgnore" not in obj["status"]
