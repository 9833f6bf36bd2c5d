"""Whatever breaks: it converges afterwards, says what was wrong meanwhile, and loses nothing."""

import asyncio
import os
import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from controlplane.plane import ControlPlane
from tests.e2e import leaving
from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    NAMESPACE,
    Space,
    condition,
    config_map,
    is_ready,
    revision_of,
)
from tests.e2e.sources import edit, fetches, looks
from tests.tools import leaders
from tests.tools.waiting import until
from toolkit.objects import GroupVersionKind, dig

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.rough]

MANY = 30


def manifests(version: str, *, count: int = MANY) -> dict[str, str]:
    return {f"{n}.yaml": config_map(f"item-{n}", version=version) for n in range(count)}


CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def widget_definition() -> str:
    """Return a CRD whose objects need a positive size."""
    size = {"type": "integer", "minimum": 1}
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": size}}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return yaml.safe_dump(
        {
            "apiVersion": CRD.api_version,
            "kind": CRD.kind,
            "metadata": {"name": "widgets.pipes.example.org"},
            "spec": {
                "group": "pipes.example.org",
                "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [version],
            },
        }
    )


def widget(name: str, *, size: int = 0) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "pipes.example.org/v1",
            "kind": "Widget",
            "metadata": {"name": name},
            "spec": {"size": size},
        }
    )


@pytest.mark.rough(replicas=2)
async def test_killed_appliers_leave_no_orphan(space: Space) -> None:
    repository = space.repository()
    repository.commit(manifests("0"))
    await space.world.apply(space.source(repository), space.kustomization())

    # Kill in the middle of every rollout; each commit also drops an object of the one before.
    for round_, moment in enumerate((0.03, 0.1), start=1):
        repository.commit({**manifests(str(round_)), f"{round_}.yaml": None})
        leader = await space.world.leader("kustomize")
        await space.request(GIT_REPOSITORY)
        await asyncio.sleep(moment)
        await leaders.kill(space.world.stack, space.world.api, leader)
    repository.commit(manifests("final", count=10))
    final = repository.commit({f"{number}.yaml": None for number in range(10, MANY)})
    await space.request(GIT_REPOSITORY)
    await space.ready(revision=final)

    left = await space.world.api.list(
        CONFIG_MAP, space.namespace, label_selector="kustomize.toolkit.fluxcd.io/name=app"
    )
    assert {item["metadata"]["name"] for item in left} == {f"item-{n}" for n in range(10)}
    assert {item["data"]["version"] for item in left} == {"final"}


async def test_killed_source_component_fetches_nothing_it_has(space: Space) -> None:
    repository = space.repository()
    commit = repository.commit(manifests("1", count=2))
    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready(revision=commit)
    before = await space.get(GIT_REPOSITORY, "app")
    fetched = fetches(space.world.git, repository)

    await space.world.kill_leader("source")
    await space.request(GIT_REPOSITORY)

    after = await space.get(GIT_REPOSITORY, "app")
    assert after["status"]["artifact"] == before["status"]["artifact"]
    assert fetches(space.world.git, repository) == fetched == 1  # references were looked at


async def test_what_finalizers_hold_is_followed_after_a_restart(space: Space) -> None:
    await leaving.pruned(space)

    await space.world.kill_leader("kustomize")
    await space.request(KUSTOMIZATION, "app")
    waiting = await space.get(KUSTOMIZATION, "app")
    await leaving.free(space)
    done = await leaving.nothing_is_leaving(space)

    assert condition(waiting, "Pruned")["reason"] == "WaitingForFinalizers"
    assert len(leaving.entries(waiting)) == 2
    assert len(leaving.entries(done)) == 1


async def test_damaged_artifact_is_noticed_and_built_again(space: Space) -> None:
    repository = space.repository()
    repository.commit(manifests("1", count=2))
    await space.world.apply(space.source(repository))
    source = await space.ready(GIT_REPOSITORY)
    path = space.world.stack.layout.storage / source["status"]["artifact"]["path"]

    path.write_bytes(b"damaged")
    await space.request(GIT_REPOSITORY)

    mended = await space.ready(GIT_REPOSITORY)
    assert path.stat().st_size > 100
    assert mended["status"]["artifact"]["digest"] == source["status"]["artifact"]["digest"]


async def test_missing_artifact_is_noticed_and_built_again(space: Space) -> None:
    repository = space.repository()
    repository.commit(manifests("1", count=2))
    await space.world.apply(space.source(repository))
    source = await space.ready(GIT_REPOSITORY)
    path = space.world.stack.layout.storage / source["status"]["artifact"]["path"]

    shutil.rmtree(path.parent)
    await space.request(GIT_REPOSITORY)

    await space.ready(GIT_REPOSITORY)
    assert path.exists()


async def test_git_server_down_keeps_the_last_artifact_and_says_so(space: Space) -> None:
    repository = space.repository()
    commit = repository.commit(manifests("1", count=2))
    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready(revision=commit)

    space.world.git.faults.status = 503
    try:
        await space.request(GIT_REPOSITORY)
        source = await space.refused(GIT_REPOSITORY)
    finally:
        space.world.git.faults.status = 0

    assert condition(source, "FetchFailed")["status"] == "True"
    assert condition(source, "Ready")["reason"] == "GitOperationFailed"
    assert commit in source["status"]["artifact"]["revision"]
    assert is_ready(await space.get(KUSTOMIZATION, "app"))
    await space.ready(GIT_REPOSITORY)  # back-off, by itself


async def test_slow_git_server_is_cut_off_at_the_timeout(space: Space) -> None:
    repository = space.repository()
    repository.commit(manifests("1", count=2))
    space.world.git.faults.seconds_per_byte = 0.2
    try:
        await space.world.apply(space.source(repository, timeout="2s"))
        source = await space.refused(GIT_REPOSITORY, saying="timed out")
    finally:
        space.world.git.faults.seconds_per_byte = 0.0

    assert condition(source, "Ready")["reason"] == "GitOperationFailed"
    await edit(space, {"timeout": "60s"})  # on a busy machine a fetch may take longer
    await space.ready(GIT_REPOSITORY)


async def test_lying_git_server_is_not_believed(space: Space) -> None:
    repository = space.repository()
    honest = repository.commit(manifests("1", count=2))
    other = repository.commit(manifests("evil", count=2), branch="other")
    space.world.git.faults.rewrite = lambda body: body.replace(honest.encode(), other.encode())
    try:
        await space.world.apply(space.source(repository))
        source = await space.refused(GIT_REPOSITORY)
    finally:
        space.world.git.faults.rewrite = None

    assert condition(source, "FetchFailed")["status"] == "True"
    assert "artifact" not in source["status"]
    mended = await space.ready(GIT_REPOSITORY)
    assert honest in revision_of(mended)


async def test_deleted_namespace_ends_although_finalizers_need_us(space: Space) -> None:
    repository = space.repository()
    repository.commit(manifests("1", count=3))
    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready()

    kubectl = space.world.plane.kubectl
    await asyncio.to_thread(
        lambda: kubectl("delete", "namespace", space.namespace, "--wait=true", timeout=180)
    )

    assert not await space.world.exists(NAMESPACE, "", space.namespace)


async def test_full_disk_is_told_and_the_last_artifact_stays(space: Space) -> None:
    repository = space.repository()
    commit = repository.commit({"a.yaml": config_map("a", v="1")})
    await space.world.apply(space.source(repository))
    await space.ready(GIT_REPOSITORY, revision=commit)
    repository.commit({"big.yaml": config_map("big", blob=os.urandom(150_000).hex())})

    # A limit on file sizes is how a disk refuses a write without a disk to fill.
    with file_size_limit(space.world.stack.pids()["source-0"], 64 << 10):
        await space.request(GIT_REPOSITORY)
        source = await space.refused(GIT_REPOSITORY, saying="store")

    artifact = source["status"]["artifact"]
    assert condition(source, "StorageOperationFailed")["status"] == "True"
    assert commit in artifact["revision"]
    assert (space.world.stack.layout.storage / artifact["path"]).exists()
    await space.ready(GIT_REPOSITORY, revision=repository.revision("main"))


@contextmanager
def file_size_limit(pid: int, size: int) -> Iterator[None]:
    """Let a process write no file beyond ``size`` while the block runs."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


_LEASED = ("source", "kustomize", "helm", "image")
"""Components that end when they lose their lease, and start anew."""


@pytest.mark.slow
async def test_api_server_down_for_a_while_is_survived(space: Space) -> None:
    """For twenty seconds, by processes that hold no lease: who loses that ends, and starts anew."""
    stack = space.world.stack
    alone = "--enable-leader-election=false"
    for component in _LEASED:
        await stack.restart(component, flags=(*stack._flags[component], alone))
    try:
        await _survive_an_outage(space)
    finally:
        for component in _LEASED:
            await stack.restart(component, flags=stack._flags[component][:-1])


async def _survive_an_outage(space: Space) -> None:
    repository = space.repository()
    first = repository.commit(manifests("1", count=3))
    await space.world.apply(space.source(repository, interval="2s"), space.kustomization())
    await space.ready(revision=first)
    pids = space.world.stack.pids()

    pid = api_server_pid(space.world.plane)
    os.kill(pid, signal.SIGSTOP)
    try:
        second = repository.commit({**manifests("2", count=2), "2.yaml": None})
        await asyncio.sleep(20)
    finally:
        os.kill(pid, signal.SIGCONT)

    await _converged(space, second)
    assert space.world.stack.pids() == pids


async def _converged(space: Space, commit: str) -> None:
    """Wait for the second version of everything, which lacks one of the objects."""
    await space.ready(revision=commit)
    await space.world.gone(CONFIG_MAP, space.namespace, "item-2")
    item = await space.get(CONFIG_MAP, "item-0")
    assert dig(item, "data", "version") == "2"


async def test_api_server_away_during_a_pass_is_survived(space: Space) -> None:
    repository = space.repository()
    first = repository.commit(manifests("1", count=3))
    await space.world.apply(space.source(repository, interval="2s"), space.kustomization())
    await space.ready(revision=first)

    pid = api_server_pid(space.world.plane)
    os.kill(pid, signal.SIGSTOP)
    try:
        second = repository.commit({**manifests("2", count=2), "2.yaml": None})
        before = looks(space.world.git, repository)
        await until(lambda: looks(space.world.git, repository) > before)
    finally:
        os.kill(pid, signal.SIGCONT)

    await _converged(space, second)


def api_server_pid(plane: ControlPlane) -> int:
    """Return the process of a kube-apiserver, known by its port."""
    port = f"--secure-port={plane.server.rpartition(':')[2]}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            if port in (entry / "cmdline").read_bytes().split(b"\0"):
                return int(entry.name)
    raise LookupError(f"no API server listens at {plane.server}")


async def test_return_to_the_old_revision_after_a_broken_apply_is_applied(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a.yaml": config_map("first", v="1")})
    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready()
    old = repository.revision("main")

    # The new class is written, then the object that needs what does not exist is refused.
    definition = widget_definition()
    repository.commit(
        {"a.yaml": config_map("first", v="2"), "crd.yaml": definition, "w.yaml": widget("broken")}
    )
    await space.request(GIT_REPOSITORY)
    await space.refused(saying="Widget")
    repository.git("update-ref", "refs/heads/main", old)
    await space.request(GIT_REPOSITORY)

    await space.ready(revision=old)
    assert (await space.get(CONFIG_MAP, "first"))["data"] == {"v": "1"}
    await space.world.gone(CRD, "", "widgets.pipes.example.org")
