"""Two replicas: one acts, the other takes over within the lease time."""

import signal

import pytest

from tests.e2e.conftest import CONFIG_MAP, GIT_REPOSITORY, LEASE, Space, World, config_map
from tests.e2e.sources import artifact_of
from tests.tools.waiting import until
from toolkit.objects import GroupVersionKind, Json, dig

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.rough(replicas=2)]

ARTIFACT = GroupVersionKind("gitops.penstock.dev", "v1alpha1", "Artifact")


async def holder(world: World, lease: str) -> str:
    obj = await world.api.get(LEASE, lease, world.stack.options.namespace)
    return str(dig(obj, "spec", "holderIdentity", default=""))


async def test_one_replica_acts_and_the_other_is_ready_to(space: Space) -> None:
    repository = space.repository()
    commit = repository.commit({"a.yaml": config_map("settings", v="1")})

    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready(revision=commit)

    for component in ("source", "kustomize"):
        await space.acting(component)
        worked = [space.noted(component, n) > 0 for n in (0, 1)]
        assert sorted(worked) == [False, True], component
        await space.world.stack.wait_ready(component, replica=worked.index(False))


async def test_killed_leader_is_replaced_and_nothing_is_lost(space: Space) -> None:
    repository = space.repository()
    first = repository.commit({"a.yaml": config_map("settings", v="1")})
    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready(revision=first)
    before = await holder(space.world, "kustomize-controller")
    leader = await space.acting("kustomize")

    # stopped, so that the supervisor does not bring it back before the lease is over
    pid = space.world.stack.pids()[f"kustomize-{leader}"]
    await space.world.stack.kill("kustomize", signal.SIGSTOP, replica=leader)
    second = repository.commit({"a.yaml": config_map("settings", v="2")})
    await space.request(GIT_REPOSITORY)
    await space.ready(revision=second)

    assert await holder(space.world, "kustomize-controller") != before
    assert (await space.get(CONFIG_MAP, "settings"))["data"] == {"v": "2"}
    await space.world.stack.kill("kustomize", signal.SIGCONT, replica=leader)
    # it has lost its lease, so it ends, and is started again
    pids = space.world.stack.pids
    await until(lambda: pids().get(f"kustomize-{leader}", pid) != pid)


async def test_stopped_leader_hands_over_at_once(space: Space) -> None:
    repository = space.repository()
    first = repository.commit({"a.yaml": config_map("settings", v="1")})
    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready(revision=first)
    leader = await space.acting("kustomize")

    await space.world.stack.stop("kustomize", replica=leader)
    second = repository.commit({"a.yaml": config_map("settings", v="2")})
    await space.request(GIT_REPOSITORY)
    await space.ready(revision=second)

    assert (await space.get(CONFIG_MAP, "settings"))["data"] == {"v": "2"}


async def test_an_artifact_is_ours_whichever_replica_stored_it(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a.yaml": config_map("settings", v="1")})
    await space.world.apply(space.source(repository))
    first = artifact_of(await space.ready(GIT_REPOSITORY))
    leader = await space.acting("source")

    async def stored(url: str) -> str:
        """Return what keeps the artifact, once it is known to be at that address."""
        shown = await space.world.api.list(ARTIFACT, space.namespace)
        return "".join(
            dig(each, "status", "stored", "backend", default="")
            for each in shown
            if dig(each, "status", "stored", "url") == url
        )

    def moved(obj: Json) -> bool:
        return bool(artifact_of(obj)["url"] != first["url"])

    before = await until(lambda: stored(first["url"]))
    await space.world.stack.stop("source", replica=leader)
    second = artifact_of(await space.world.until(GIT_REPOSITORY, space.namespace, "app", moved))
    after = await until(lambda: stored(second["url"]))

    assert (before, after) == ("local", "local")
