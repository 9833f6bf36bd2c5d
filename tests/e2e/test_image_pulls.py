"""Pull requests of an automation, at a hosting service, by a process that dies in between."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
import trustme

from tests.e2e.conftest import SECRET, Space, condition
from tests.e2e.images import (
    AUTOMATION,
    IMAGE_POLICY,
    IMAGE_REPOSITORY,
    NAME,
    automation,
    marked,
    policy,
    repository_of,
)
from tests.e2e.sources import secret
from tests.fakes import imagescene
from tests.fakes.cosignscene import pem
from tests.fakes.hosting import Hosting
from tests.fakes.imagescene import KEY
from tests.fakes.pullrequests import Pull
from tests.fakes.registry import FakeRegistry
from tests.fakes.serving import certified
from tests.tools import waiting
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, Json

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.rough(replicas=2)]

VERIFICATION = GroupVersionKind("policy.penstock.dev", "v1alpha1", "ImageVerificationPolicy")
TOKEN = "token-s3cret"
FLEET = "acme/fleet"


@pytest_asyncio.fixture(loop_scope="session")
async def registry(space: Space) -> AsyncIterator[FakeRegistry]:
    """Run a registry whose images must be signed in the test's namespace."""
    keys = f"keys-{space.namespace}"
    async with FakeRegistry() as server:
        await space.world.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": keys, "namespace": space.world.stack.options.namespace},
                "stringData": {"cosign.pub": pem(KEY).decode()},
            },
            demand(space, server, keys),
        )
        yield server
    with suppress(NotFoundError):
        await space.world.api.delete(VERIFICATION, space.namespace, "")
        await space.world.api.delete(SECRET, keys, space.world.stack.options.namespace)


def demand(space: Space, server: FakeRegistry, keys: str) -> Json:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": space.namespace}}
    return {
        "apiVersion": VERIFICATION.api_version,
        "kind": VERIFICATION.kind,
        "metadata": {"name": space.namespace},
        "spec": {
            "mode": "Enforce",
            "namespaceSelector": selector,
            "images": [f"{server.host}/org/**"],
            "verifiers": [{"name": "release", "cosign": {"secretRef": {"name": keys}}}],
            "registry": {"insecure": True},
        },
    }


async def test_a_pull_request_outlives_the_process_that_opened_it(
    space: Space, registry: FakeRegistry, tmp_path: Path
) -> None:
    authority = trustme.CA()
    context = certified(authority, "localhost")
    first = push(registry, "1.0.0")
    async with Hosting(tmp_path, "github", tls=context, token=TOKEN) as service:
        service.make(FLEET)
        fleet, pulls = service.made[FLEET], service.pulls[FLEET]
        fleet.commit({"apps/web.yaml": marked(space, registry, "0.9.0")})
        login = {"username": "git", "password": TOKEN, "ca.crt": authority.cert_pem.bytes()}
        source = space.source(fleet, secretRef={"name": "git"})
        source["spec"]["url"] = f"https://{service.hostname}/{FLEET}.git"
        proposing = automation(space, push={"branch": "images"})
        proposing["metadata"]["annotations"] = {"image.penstock.dev/pull-request": "github"}
        await space.world.apply(
            secret(space, "git", login),
            source,
            repository_of(space, registry),
            policy(space),
            proposing,
        )

        opened = await waiting.until(lambda: pulls.open)
        await space.told("opened pull request #1", AUTOMATION)
        await space.world.kill_leader("image")
        push(registry, "1.2.0", signed=False)
        second = push(registry, "1.1.0")
        await space.request(IMAGE_REPOSITORY)
        await waiting.until(lambda: second in pulls.pulls[0].body)
        told = await space.ready(AUTOMATION)
        chosen = await space.ready(IMAGE_POLICY)
        pulls.merge(1)
        await space.request(AUTOMATION)
        ended = await space.ready(AUTOMATION)

    assert [(each.number, each.head, each.base) for each in opened] == [(1, "images", "main")]
    assert condition(told, "PullRequestReady")["message"] == "pull request #1 is up to date"
    assert condition(ended, "PullRequestReady")["message"] == "nothing is left to change"
    (pull,) = pulls.pulls
    path, before, after, signer = row(pull)
    assert path == "apps/web.yaml"
    assert before == f"{registry.host}/{NAME}:0.9.0"
    assert after == f"{registry.host}/{NAME}:1.1.0@{second}"
    assert signer
    assert f" is signed by {signer}, as " in condition(chosen, "ImageVerified")["message"]
    assert f"{registry.host}/{NAME}:1.1.0@{second} #" in fleet.content("apps/web.yaml", "main")
    assert fleet.revision("images~1") == fleet.revision("main^1")
    assert first not in pull.body
    assert TOKEN not in pull.body


def push(registry: FakeRegistry, tag: str, *, signed: bool = True) -> str:
    digest = str(registry.push(NAME, tag, [tag.encode()])["digest"])
    if signed:
        imagescene.sign(registry, NAME, digest)
    return digest


def row(pull: Pull) -> tuple[str, ...]:
    """Return the cells of the one change that a pull request lists."""
    (found,) = [line for line in pull.body.splitlines() if line.startswith("| `")]
    return tuple(cell.strip(" `") for cell in found.strip("|").split("|"))
