"""Images run by the digest that was signed, or not at all: the whole product at work.

The registry is the reference one. Each test has one of its own, and a policy for its namespace.
"""

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec
from yarl import URL

from cli.stack import stack as stacks
from tests.e2e.conftest import (
    DEADLINE,
    DEPLOYMENT,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    SECRET,
    Space,
    condition,
    deployment,
)
from tests.fakes import cosignsigner, distribution
from tests.fakes.cosignscene import pem
from tests.fakes.cosignsigner import BUNDLE
from tests.fakes.registry import OCI_MANIFEST
from tests.fakes.sigstore import canonical
from tests.tools import programs
from toolkit.kube.errors import ApiError
from toolkit.objects import GroupVersionKind, Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

POD = GroupVersionKind("", "v1", "Pod")
POLICY = GroupVersionKind("policy.penstock.dev", "v1alpha1", "ImageVerificationPolicy")
INDEX = "application/vnd.oci.image.index.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass
class Registry:
    """A registry, and who pushes to it and signs."""

    host: str
    web: aiohttp.ClientSession
    running: AsyncExitStack
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def name(self, image: str) -> str:
        return f"{self.host}/team/{image}"

    async def push(self, image: str, content: str, *, signed: bool = False) -> str:
        """Push an image ``name:tag`` and return its digest."""
        name, _, tag = image.partition(":")
        layer = await self._blob(name, content.encode(), LAYER)
        manifest = await self._manifest(name, [layer])
        digest = await self._put(name, tag, manifest, OCI_MANIFEST)
        if signed:
            await self._sign(name, {**described(manifest, OCI_MANIFEST)})
        return digest

    async def stop(self) -> None:
        """Take it away for good."""
        await self.running.aclose()

    async def _sign(self, name: str, subject: Json) -> None:
        """Attach a signature where a registry without the referrers API has it (OCI 1.1)."""
        bundle = canonical(cosignsigner.keyed(self.key, subject["digest"]))
        blob = await self._blob(name, bundle, BUNDLE)
        manifest = await self._manifest(name, [blob], artifactType=BUNDLE, subject=subject)
        attached = described(manifest, OCI_MANIFEST)
        await self._put(name, attached["digest"], manifest, OCI_MANIFEST)
        listed = {
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [{**attached, "artifactType": BUNDLE}],
        }
        tag = subject["digest"].replace(":", "-")
        await self._put(name, tag, json.dumps(listed).encode(), INDEX)

    async def _manifest(self, name: str, layers: list[Json], **more: Any) -> bytes:
        config = await self._blob(name, b"{}", EMPTY)
        parts = {"config": config, "layers": layers, **more}
        return json.dumps({"schemaVersion": 2, "mediaType": OCI_MANIFEST, **parts}).encode()

    async def _blob(self, name: str, content: bytes, kind: str) -> Json:
        made = described(content, kind)
        start = f"http://{self.host}/v2/team/{name}/blobs/uploads/"
        async with self.web.post(start) as response:
            place = URL(response.headers["Location"]).update_query(digest=made["digest"])
        async with self.web.put(place, data=content) as response:
            assert response.status == 201, await response.text()
        return made

    async def _put(self, name: str, reference: str, manifest: bytes, kind: str) -> str:
        place = f"http://{self.host}/v2/team/{name}/manifests/{reference}"
        async with self.web.put(place, data=manifest, headers={"Content-Type": kind}) as response:
            assert response.status == 201, await response.text()
        return str(described(manifest, kind)["digest"])


def described(content: bytes, kind: str) -> Json:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {"mediaType": kind, "digest": digest, "size": len(content)}


@pytest.fixture(scope="session")
def registry_program() -> Path:
    return programs.path("registry")


@pytest_asyncio.fixture(loop_scope="session")
async def registry(registry_program: Path, tmp_path: Path) -> AsyncIterator[Registry]:
    async with AsyncExitStack() as running, aiohttp.ClientSession() as web:
        served = distribution.serve(registry_program, tmp_path / "registry")
        yield Registry(await running.enter_async_context(served), web, running)


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def policy(space: Space, registry: Registry) -> AsyncIterator[None]:
    """Demand signatures in the test's namespace; the gate asks nobody about images afterwards."""
    keys = f"cosign-{space.namespace}"
    data = {"cosign.pub": base64.b64encode(pem(registry.key)).decode()}
    await space.world.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": keys, "namespace": stacks.NAMESPACE},
            "data": data,
        },
        {
            "apiVersion": POLICY.api_version,
            "kind": POLICY.kind,
            "metadata": {"name": space.namespace},
            "spec": {
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": space.namespace}
                },
                "images": [f"{registry.host}/team/**"],
                "verifiers": [{"name": "release", "cosign": {"secretRef": {"name": keys}}}],
                "registry": {"insecure": True},
            },
        },
    )
    await registry.push("probe:v1", "probe")
    await soon(space, lambda: said(space, "probe", registry.name("probe:v1")), "is not signed")
    yield
    await space.world.api.delete(POLICY, space.namespace, "")
    await space.world.api.delete(SECRET, keys, stacks.NAMESPACE)


def pod(name: str, image: str) -> Json:
    spec = {"containers": [{"name": "app", "image": image}], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def create(space: Space, name: str, image: str, *, dry_run: bool = False) -> Json:
    """Apply a Pod in the test's namespace, as a user would."""
    obj = pod(name, image)
    obj["metadata"]["namespace"] = space.namespace
    return (await space.world.api.apply(obj, manager="kubectl", dry_run=dry_run)).object


async def said(space: Space, name: str, image: str) -> str:
    """Return the denial of a Pod, or the image that it would be stored with."""
    try:
        stored = await create(space, name, image, dry_run=True)
    except ApiError as exc:
        return str(exc)
    return image_of(stored)


def image_of(obj: Json) -> str:
    return str(obj["spec"]["containers"][0]["image"])


async def soon(space: Space, ask: Callable[[], Any], text: str) -> list[str]:
    """Ask until the answer holds a text; return what was answered before."""
    answers: list[str] = []
    deadline = time.monotonic() + DEADLINE
    while text not in (answer := str(await ask())):
        answers.append(answer)
        assert time.monotonic() < deadline, f"{space.namespace}: {answer}"
        await asyncio.sleep(0.2)
    return answers


async def pods(space: Space, *, but: frozenset[str] = frozenset()) -> list[Json]:
    """Return the Pods of the Deployment ``web`` once there is one, apart from known ones."""
    deadline = time.monotonic() + DEADLINE
    while True:
        found = await space.world.api.list(POD, space.namespace, label_selector="app=web")
        new = [each for each in found if each["metadata"]["uid"] not in but]
        if new:
            return new
        assert time.monotonic() < deadline, "no Pod was created"
        await asyncio.sleep(0.1)


async def applied(space: Space, image: str) -> None:
    """Have a Kustomization apply the Deployment ``web`` of an image."""
    repository = space.repository()
    repository.commit({"web.yaml": deployment("web", image=image)})
    await space.world.apply(space.source(repository), space.kustomization(wait=True))


async def test_signed_image_is_applied_and_runs_by_its_digest(
    space: Space, registry: Registry
) -> None:
    digest = await registry.push("web:v1", "good", signed=True)

    await applied(space, registry.name("web:v1"))
    await space.ready()
    (running,) = await pods(space)
    before = await space.get(DEPLOYMENT, "web")
    await space.request()
    after = await space.get(DEPLOYMENT, "web")

    pinned = f"{registry.name('web:v1')}@{digest}"
    assert image_of(running) == pinned
    assert image_of(before["spec"]["template"]) == pinned
    assert dig(after, "metadata", "generation") == dig(before, "metadata", "generation")


async def test_unsigned_image_is_refused_by_name_until_it_is_signed(
    space: Space, registry: Registry
) -> None:
    await registry.push("web:v1", "late")

    await applied(space, registry.name("web:v1"))
    obj = await space.refused(saying="is not signed")

    message = condition(obj, "Ready")["message"]
    assert condition(obj, "Ready")["reason"] == "ReconciliationFailed"
    assert f"Deployment/{space.namespace}/web" in message
    assert f"container 'app': image '{registry.name('web:v1')}'" in message
    assert f"(ImageVerificationPolicy '{space.namespace}')" in message
    assert not await space.world.exists(DEPLOYMENT, space.namespace, "web")
    digest = await registry.push("web:v1", "late", signed=True)
    await space.ready()
    (running,) = await pods(space)
    assert image_of(running) == f"{registry.name('web:v1')}@{digest}"


async def test_unsigned_container_for_debugging_is_refused(
    space: Space, registry: Registry
) -> None:
    await registry.push("web:v1", "good", signed=True)
    await registry.push("evil:v1", "evil")
    await create(space, "web", registry.name("web:v1"))
    container = {"name": "debugger", "image": registry.name("evil:v1")}

    with pytest.raises(ApiError, match="ephemeral container 'debugger': image") as caught:
        await space.world.api.patch(
            *(POD, "web", space.namespace, {"spec": {"ephemeralContainers": [container]}}),
            strategy="merge",
            subresource="ephemeralcontainers",
        )

    assert "is not signed" in str(caught.value)
    assert not dig(await space.get(POD, "web"), "spec", "ephemeralContainers")


@pytest.mark.slow  # what a tag leads to is kept for 20 s
async def test_tag_that_moves_to_unsigned_content_takes_nobody_along(
    space: Space, registry: Registry
) -> None:
    digest = await registry.push("web:v1", "good", signed=True)
    pinned = f"{registry.name('web:v1')}@{digest}"
    await applied(space, registry.name("web:v1"))
    await space.ready()
    (first,) = await pods(space)

    moved = await registry.push("web:v1", "evil")
    before = await soon(
        space, lambda: said(space, "other", registry.name("web:v1")), "is not signed"
    )
    await space.world.api.delete(POD, first["metadata"]["name"], space.namespace)
    second = await pods(space, but=frozenset({first["metadata"]["uid"]}))

    assert moved != digest
    assert set(before) <= {pinned}  # what the tag led to is kept for a while
    assert {image_of(each) for each in second} == {pinned}


async def test_workload_goes_on_while_the_registry_is_away(
    space: Space, registry: Registry
) -> None:
    digest = await registry.push("web:v1", "good", signed=True)
    await registry.push("new:v1", "good", signed=True)
    await applied(space, registry.name("web:v1"))
    await space.ready()
    (first,) = await pods(space)

    await registry.stop()
    denied = await said(space, "other", registry.name("new:v1"))
    await space.world.api.delete(POD, first["metadata"]["name"], space.namespace)
    second = await pods(space, but=frozenset({first["metadata"]["uid"]}))
    await space.request()
    await space.ready()

    assert {image_of(each) for each in second} == {f"{registry.name('web:v1')}@{digest}"}
    assert "new:v1" in denied
    assert "is not signed" not in denied
    assert condition(await space.get(KUSTOMIZATION, "app"), "Ready")["status"] == "True"
    assert condition(await space.get(GIT_REPOSITORY, "app"), "Ready")["status"] == "True"


async def test_only_a_signed_tag_is_chosen(space: Space, registry: Registry) -> None:
    signed = await registry.push("web:1.0.0", "good", signed=True)
    await registry.push("web:1.1.0", "evil")
    image = {"image": registry.name("web"), "interval": "1h", "insecure": True}
    await space.world.apply(
        images(space, "ImageRepository", image),
        images(
            space,
            "ImagePolicy",
            {"imageRepositoryRef": {"name": "app"}, "policy": {"semver": {"range": ">=1"}}},
        ),
    )

    first = await space.ready(IMAGE_POLICY)
    await registry.push("web:1.2.0", "better", signed=True)
    await space.request(GroupVersionKind(*IMAGES, "ImageRepository"))
    await space.world.until(
        IMAGE_POLICY, space.namespace, "app", lambda obj: chosen(obj).get("tag") == "1.2.0"
    )

    assert chosen(first) == {"name": registry.name("web"), "tag": "1.0.0", "digest": signed}
    told = condition(first, "ImageVerified")
    assert told["status"] == "True"
    assert (
        f"ImageVerificationPolicy '{space.namespace}' demands; not chosen: 1.1.0: "
        in (told["message"])
    )


IMAGES = ("image.toolkit.fluxcd.io", "v1")
IMAGE_POLICY = GroupVersionKind(*IMAGES, "ImagePolicy")


def images(space: Space, kind: str, spec: Json) -> Json:
    metadata = {"name": "app", "namespace": space.namespace}
    return {"apiVersion": "/".join(IMAGES), "kind": kind, "metadata": metadata, "spec": spec}


def chosen(obj: Json) -> Json:
    found: Json = dig(obj, "status", "latestRef", default={})
    return found
