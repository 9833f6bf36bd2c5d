"""Generators whose process is killed, and generators on a cluster where tenants are locked in."""

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from controlplane.plane import ControlPlane
from tests.e2e.conftest import (
    DEADLINE,
    GIT_REPOSITORY,
    NAMESPACE,
    Space,
    World,
    build_world,
    condition,
    config_map,
    is_ready,
)
from tests.e2e.sources import artifact_of, content
from tests.e2e.test_artifactgenerator import EXTERNAL, GENERATOR, artifact, generator, made

pytestmark = pytest.mark.asyncio(loop_scope="session")

MANY = 300
FEW = 5


@pytest.fixture(scope="module")
def control_plane(second_control_plane: ControlPlane) -> ControlPlane:
    """Keep away from the shared world, whose processes would act on the same objects."""
    return second_control_plane


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """Run a world whose source component is killed, and allows no reference to other namespaces.

    Nothing else runs; the gate would refuse such references before.
    """
    locked = {"source": ("--no-cross-namespace-refs",)}
    directory = tmp_path_factory.mktemp("made")
    async with build_world(control_plane, directory, flags=locked, components=("source",)) as built:
        yield built


async def test_a_process_killed_while_it_writes_leaves_nothing_undone(space: Space) -> None:
    repository = space.repository()
    repository.commit({f"apps/a{n}/x.yaml": config_map(f"a{n}") for n in range(MANY)})
    await space.world.apply(
        space.source(repository),
        generator(
            space, artifact("{n}", ("@app/apps/{n}/**", "@artifact/")), pathPattern="@app/apps/{n}"
        ),
    )

    found = 0
    async with asyncio.timeout(DEADLINE):
        while found <= FEW:
            found = len(await space.world.api.list(EXTERNAL, space.namespace))
    await space.world.stack.kill("source", signal.SIGKILL)
    ready = await space.world.until(GENERATOR, space.namespace, "gen", is_ready, within=120)
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

    await space.world.stack.kill("source", signal.SIGKILL)
    await space.request(GIT_REPOSITORY)
    second = generator(space, artifact("other", ("@app/**", "@artifact/")))
    second["metadata"]["name"] = "second"
    await space.world.apply(second)
    await made(space, "other")

    after = await space.get(EXTERNAL, "web")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert (await space.get(GENERATOR, "gen"))["status"] == settled["status"]


@pytest.mark.parametrize("exists", [True, False])
async def test_a_source_of_another_namespace_is_denied(space: Space, *, exists: bool) -> None:
    other = Space(world=space.world, namespace=f"{space.namespace}-other")
    repository = other.repository()
    repository.commit({"x.yaml": config_map("x")})
    namespace = {
        "apiVersion": "v1",
        "kind": NAMESPACE.kind,
        "metadata": {"name": other.namespace},
    }
    await space.world.apply(namespace)
    if exists:
        await space.world.apply(other.source(repository))
        await other.ready(GIT_REPOSITORY)
    document = generator(space, artifact("web", ("@app/**", "@artifact/")))
    document["spec"]["sources"][0]["namespace"] = other.namespace

    await space.world.apply(document)
    refused = await space.refused(GENERATOR, "gen")

    assert condition(refused, "Stalled")["reason"] == "AccessDenied"
    assert condition(refused, "Ready")["message"] == (
        f"can't access 'GitRepository/{other.namespace}/app', "
        "cross-namespace references have been blocked"
    )
    assert not await space.world.exists(EXTERNAL, space.namespace, "web")
