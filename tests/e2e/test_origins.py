"""Content is admitted by where it was fetched, whatever address its source names afterwards."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import pytest
import pytest_asyncio

from tests.e2e import ocirepositories
from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    NAMESPACE,
    Space,
    condition,
    config_map,
)
from tests.e2e.provenance import POLICY, change, refuses
from tests.e2e.sources import artifact_of, content
from tests.fakes.registry import FakeRegistry, tarball
from tests.tools import waiting
from toolkit.objects import GroupVersionKind, Json
from toolkit.policy import origins
from toolkit.policy.provenance import LABEL

pytestmark = pytest.mark.asyncio(loop_scope="session")

FOREIGN, OWN = {"evil.yaml": config_map("evil")}, {"good.yaml": config_map("good")}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A source at an admitted address, the change that points it elsewhere, and the one back."""

    kind: GroupVersionKind
    objects: tuple[Json, ...]
    admitted: str
    elsewhere: Json
    back: Json


@asynccontextmanager
async def of_git(space: Space) -> AsyncIterator[Scene]:
    own, foreign = space.repository("own"), space.repository("foreign")
    own.commit(OWN)
    foreign.commit(FOREIGN)
    yield Scene(
        kind=GIT_REPOSITORY,
        objects=(space.source(own),),
        admitted=own.url,
        elsewhere={"url": foreign.url},
        back={"url": own.url},
    )


@asynccontextmanager
async def of_registry(space: Space) -> AsyncIterator[Scene]:
    async with FakeRegistry() as server:
        server.push(ocirepositories.NAME, "latest", [tarball(OWN)])
        server.push("foreign/app", "latest", [tarball(FOREIGN)])
        own = server.url(ocirepositories.NAME)
        yield Scene(
            kind=ocirepositories.OCI_REPOSITORY,
            objects=(ocirepositories.source(space, server),),
            admitted=own.replace("oci://", "oci+http://"),
            elsewhere={"url": server.url("foreign/app")},
            back={"url": own},
        )


@pytest_asyncio.fixture(loop_scope="session")
async def production(space: Space) -> AsyncIterator[str]:
    name = f"{space.namespace}-prod"
    await space.world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    if await space.world.exists(POLICY, "", name):
        await space.world.api.delete(POLICY, name)
    await space.world.api.delete(NAMESPACE, name)


async def protect(space: Space, namespace: str, url: str) -> None:
    """Admit into a namespace only what comes from an address."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    await space.world.apply(
        {
            "apiVersion": POLICY.api_version,
            "kind": POLICY.kind,
            "metadata": {"name": namespace},
            "spec": {"namespaceSelector": selector, "origins": [{"source": {"urls": [url]}}]},
        }
    )
    await change(space, NAMESPACE, "", namespace, {"metadata": {"labels": {LABEL: "yes"}}})
    await waiting.until(lambda: refuses(space, namespace))


async def put(space: Space, scene: Scene, spec: Json) -> None:
    await change(space, scene.kind, space.namespace, "app", {"spec": spec})


@pytest.mark.parametrize("offer", [of_git, of_registry])
async def test_foreign_content_is_not_admitted_under_an_allowed_address(
    space: Space,
    production: str,
    offer: Callable[[Space], AbstractAsyncContextManager[Scene]],
) -> None:
    world = space.world
    async with offer(space) as scene:
        await protect(space, production, scene.admitted)
        reference = {"kind": scene.kind.kind, "name": "app"}
        app = space.kustomization(targetNamespace=production, sourceRef=reference)
        await world.apply(*scene.objects, app)
        await space.ready()
        own = artifact_of(await space.ready(scene.kind))

        # the source is pointed elsewhere, and its artifact is foreign,
        await put(space, scene, scene.elsewhere)
        await world.until(
            *(scene.kind, space.namespace, "app"),
            lambda obj: artifact_of(obj)["digest"] != own["digest"],
        )
        # then it names the allowed address and is kept from fetching.
        await put(space, scene, {**scene.back, "suspend": True})
        for _ in range(2):
            await space.request()
        refused = condition(await space.refused(saying="which is not admitted"), "Ready")
        present = await world.exists(CONFIG_MAP, production, "evil")

        await put(space, scene, {"suspend": False})
        await world.until(
            *(scene.kind, space.namespace, "app"),
            lambda obj: artifact_of(obj)["digest"] == own["digest"],
        )
        await space.ready()

    assert (
        f"{scene.kind.kind}/{space.namespace}/app contains what was fetched" in refused["message"]
    )
    assert not present
    assert not await world.exists(CONFIG_MAP, production, "evil")
    assert await world.exists(CONFIG_MAP, production, "good")


async def test_a_pinned_commit_is_fetched_again_elsewhere(space: Space) -> None:
    own, foreign = space.repository("own"), space.repository("foreign")
    own.commit({"own": "1"})
    pinned = {"commit": foreign.commit({"foreign": "1"})}
    await space.world.apply(space.source(foreign, ref=pinned))
    before = artifact_of(await space.ready(GIT_REPOSITORY))

    await change(space, GIT_REPOSITORY, space.namespace, "app", {"spec": {"url": own.url}})
    after = await space.refused(GIT_REPOSITORY, saying="did not send commit")

    assert [each.url for each in origins.read(artifact_of(after)["metadata"])] == [foreign.url]
    assert artifact_of(after)["digest"] == before["digest"]


async def test_a_status_does_not_hide_what_was_included(space: Space) -> None:
    base, app = space.repository("base"), space.repository("app")
    base.commit({"foreign": "1"})
    app.commit({"own": "1"})
    include = [{"repository": {"name": "base"}}]
    await space.world.apply(space.source(base, "base"), space.source(app, include=include))
    source = await space.ready(GIT_REPOSITORY)
    assert await content(source) == {"own": "1", "base/foreign": "1"}

    forged: Json = {"observedInclude": None, "includedArtifacts": None}
    await change(
        space, GIT_REPOSITORY, space.namespace, "app", {"spec": {"include": None, "suspend": True}}
    )
    await space.world.api.patch(
        *(GIT_REPOSITORY, "app", space.namespace, {"status": forged}),
        strategy="merge",
        subresource="status",
    )
    await change(space, GIT_REPOSITORY, space.namespace, "app", {"spec": {"suspend": False}})

    assert await content(await space.ready(GIT_REPOSITORY)) == {"own": "1"}
