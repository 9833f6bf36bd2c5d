"""Generators whose process is killed, and generators on a cluster where tenants are locked in."""

import asyncio

import pytest

from tests.e2e.conftest import (
    DEADLINE,
    GIT_REPOSITORY,
    NAMESPACE,
    Space,
    condition,
    config_map,
    is_ready,
)
from tests.e2e.generators import EXTERNAL, GENERATOR, artifact, generator, made
from tests.e2e.sources import artifact_of, content
from tests.tools import leaders

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.rough]

MANY = 100
FEW = 5


async def test_a_process_killed_while_it_writes_leaves_nothing_undone(space: Space) -> None:
    repository = space.repository()
    repository.commit({f"apps/a{n}/x.yaml": config_map(f"a{n}") for n in range(MANY)})
    await space.world.apply(
        space.source(repository),
        generator(
            space, artifact("{n}", ("@app/apps/{n}/**", "@artifact/")), pathPattern="@app/apps/{n}"
        ),
    )

    leader = await space.world.leader("source")
    found = 0
    async with asyncio.timeout(DEADLINE):
        while found <= FEW:
            found = len(await space.world.api.list(EXTERNAL, space.namespace))
    await leaders.kill(space.world.stack, space.world.api, leader)
    ready = await space.world.until(GENERATOR, space.namespace, "gen", is_ready)
    objects = await space.world.api.list(EXTERNAL, space.namespace)
    sample = next(obj for obj in objects if obj["metadata"]["name"] == "a7")

    assert found < MANY
    assert len(ready["status"]["inventory"]) == len(objects) == MANY
    assert all(artifact_of(obj)["digest"] for obj in objects)
    assert await content(sample) == {"x.yaml": config_map("a7")}


async def test_a_process_that_starts_anew_writes_nothing(space: Space) -> None:
    repository = space.repository()
    repository.commit({"x.yaml": config_map("x")})
    await space.world.apply(
        space.source(repository), generator(space, artifact("web", ("@app/**", "@artifact/")))
    )
    before = await made(space, "web")
    settled = await space.ready(GENERATOR, "gen")

    await space.world.kill_leader("source")
    await space.request(GIT_REPOSITORY)
    second = generator(space, artifact("other", ("@app/**", "@artifact/")))
    second["metadata"]["name"] = "second"
    await space.world.apply(second)
    await made(space, "other")

    after = await space.get(EXTERNAL, "web")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert (await space.get(GENERATOR, "gen"))["status"] == settled["status"]


async def test_a_source_of_another_namespace_is_denied_although_it_is_granted(space: Space) -> None:
    """The grant is for the gate; the flag of the process forbids what is granted."""
    other = Space(world=space.world, namespace=f"{space.namespace}-other")
    repository = other.repository()
    repository.commit({"x.yaml": config_map("x")})
    metadata = {"name": other.namespace}
    await space.world.apply({"apiVersion": "v1", "kind": NAMESPACE.kind, "metadata": metadata})
    of = {"group": GENERATOR.group, "kind": GENERATOR.kind, "namespace": space.namespace}
    to = {"group": GIT_REPOSITORY.group, "kind": GIT_REPOSITORY.kind}
    grant = {
        "apiVersion": "policy.penstock.dev/v1alpha1",
        "kind": "ReferenceGrant",
        "metadata": {"name": "guests", "namespace": other.namespace},
        "spec": {"from": [of], "to": [to]},
    }
    await space.world.apply(grant, other.source(repository))
    await other.ready(GIT_REPOSITORY)

    for name in ("app", "missing"):
        document = generator(space, artifact("web", ("@app/**", "@artifact/")))
        document["metadata"]["name"] = f"gen-{name}"
        document["spec"]["sources"][0] |= {"name": name, "namespace": other.namespace}
        await space.world.apply(document)
        refused = await space.refused(GENERATOR, f"gen-{name}")

        assert condition(refused, "Stalled")["reason"] == "AccessDenied"
        assert condition(refused, "Ready")["message"] == (
            f"can't access 'GitRepository/{other.namespace}/{name}', "
            "cross-namespace references have been blocked"
        )
    assert not await space.world.exists(EXTERNAL, space.namespace, "web")
