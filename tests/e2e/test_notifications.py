"""Events reach services, hooks reach objects: through the API server, Git and real sockets."""

import asyncio
import hashlib
import hmac
import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from tests.e2e.conftest import (
    GIT_REPOSITORY,
    SECRET,
    Space,
    condition,
    config_map,
    is_ready,
)
from tests.tools.waiting import until
from toolkit.objects import GroupVersionKind, Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

_GROUP = "notification.toolkit.fluxcd.io"
PROVIDER = GroupVersionKind(_GROUP, "v1", "Provider")
ALERT = GroupVersionKind(_GROUP, "v1", "Alert")
FEW = 25
"""Of a hundred hooks. A pass takes the hooks that came since the one before, and how many passes
fit into the burst depends on how long it takes."""
RECEIVER = GroupVersionKind(_GROUP, "v1", "Receiver")


@dataclass
class Sink:
    """A service that keeps what it is told, and answers with ``status``."""

    address: str = ""
    status: int = 200
    told: list[tuple[dict[str, str], Any]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        """Keep a request."""
        body = await request.read()
        if self.status == 200:
            self.told.append((dict(request.headers), json.loads(body)))
        return web.Response(status=self.status)

    def about(self, kind: str) -> list[Json]:
        """Return the events about objects of a kind."""
        return [body for _, body in self.told if body["involvedObject"]["kind"] == kind]


@pytest_asyncio.fixture(loop_scope="session")
async def sink() -> AsyncIterator[Sink]:
    """Run a service on loopback."""
    found = Sink()
    app = web.Application()
    app.router.add_post("/events", found.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    found.address = f"http://127.0.0.1:{port}/events"
    yield found
    await runner.cleanup()


def made(space: Space, gvk: GroupVersionKind, name: str, spec: Json, version: str = "") -> Json:
    return {
        "apiVersion": f"{_GROUP}/{version or gvk.version}",
        "kind": gvk.kind,
        "metadata": {"name": name, "namespace": space.namespace},
        "spec": spec,
    }


def secret(space: Space, name: str, **data: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": space.namespace},
        "stringData": data,
    }


async def alerted(space: Space, sink: Sink, **spec: Any) -> None:
    """Send events of the space's Kustomizations and sources to the sink."""
    sources = [{"kind": kind, "name": "*"} for kind in ("Kustomization", "GitRepository")]
    await space.world.apply(
        made(space, PROVIDER, "sink", {"type": "generic", "address": sink.address}, "v1beta3"),
        made(
            space,
            ALERT,
            "all",
            {"providerRef": {"name": "sink"}, "eventSources": sources, **spec},
            "v1beta1",
        ),
    )
    await space.world.until(PROVIDER, space.namespace, "sink", is_ready)


async def test_a_commit_is_told_to_the_service(space: Space, sink: Sink) -> None:
    await alerted(space, sink, summary="of the shop")
    repository = space.repository()
    commit = repository.commit({"a.yaml": config_map("a", v="1")})
    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready(revision=commit)

    told = await until(lambda: sink.about("Kustomization"))
    provider = await space.world.until(
        PROVIDER,
        space.namespace,
        "sink",
        lambda obj: condition(obj, "Delivering").get("status") == "True",
    )

    assert told[0]["involvedObject"]["name"] == "app"
    assert told[0]["metadata"]["revision"] == f"main@sha1:{commit}"
    assert told[0]["metadata"]["summary"] == "of the shop"
    assert told[0]["metadata"]["account"].endswith("/kustomize-applier")
    assert told[0]["metadata"]["changes"] == f"1 created: ConfigMap/{space.namespace}/a"
    assert told[0]["reportingController"] == "kustomize-controller"
    assert await until(lambda: sink.about("GitRepository"))
    assert condition(provider, "Ready")["message"] == "Initialized"


@pytest.mark.parametrize("pod", ["restarts", "is deleted"])
async def test_events_wait_for_a_service_that_is_down_while_the_pod(
    space: Space, sink: Sink, pod: str
) -> None:
    stack = space.world.stack
    await alerted(space, sink)
    sink.status = 503
    repository = space.repository()
    repository.commit({"a.yaml": config_map("a", v="1")})
    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready()
    failing = await space.world.until(
        PROVIDER,
        space.namespace,
        "sink",
        lambda obj: condition(obj, "Delivering").get("status") == "False",
    )

    if pod == "restarts":
        before = stack.starts("notification")
        await stack.kill("notification")
        await until(lambda: stack.starts("notification") > before)
        await stack.wait_ready("notification")
    else:
        await stack.stop("notification")
        await asyncio.to_thread(shutil.rmtree, stack.layout.storage / "notifications")
        await stack.restart("notification")
    assert not sink.told
    sink.status = 200

    assert await until(lambda: sink.about("Kustomization"))
    assert "HTTP 503" in condition(failing, "Delivering")["message"]


async def received(space: Space, kind: str, **spec: Any) -> str:
    """Make a Receiver with the token ``secret``; return the address of its hook."""
    resources = [{"kind": "GitRepository", "name": "app"}]
    await space.world.apply(
        secret(space, "hook", token="secret"),
        made(
            space,
            RECEIVER,
            "app",
            {"type": kind, "secretRef": {"name": "hook"}, "resources": resources, **spec},
            "v1beta2",
        ),
    )
    ready = await space.world.until(RECEIVER, space.namespace, "app", is_ready)
    path = ready["status"]["webhookPath"]
    digest = hashlib.sha256(f"secretapp{space.namespace}".encode()).hexdigest()
    assert path == f"/hook/{digest}"
    assert condition(ready, "Ready")["message"] == f"Receiver initialized for path: {path}"
    return f"http://{space.world.stack.hooks_address}{path}"


async def pushed(session: aiohttp.ClientSession, url: str, body: bytes, **headers: str) -> int:
    """Announce a push as GitHub does."""
    digest = hmac.new(b"secret", body, hashlib.sha256).hexdigest()
    own = {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Event": "push", **headers}
    async with session.post(url, data=body, headers=own) as response:
        return response.status


async def test_a_push_is_fetched_at_once_and_a_forged_one_is_not(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a.yaml": config_map("a", v="1")})
    await space.world.apply(space.source(repository, interval="60m"), space.kustomization())
    await space.ready()
    url = await received(space, "github", events=["push"])
    commit = repository.commit({"a.yaml": config_map("a", v="2")})

    async with aiohttp.ClientSession() as session:
        wrong = {"X-Hub-Signature-256": "sha256=" + "0" * 64}
        forged = await pushed(session, url, b"{}", **wrong)
        strange = await pushed(session, url, b"{}", **{"X-GitHub-Event": "star"})
        unknown = await pushed(session, url[:-1] + "x", b"{}")
        taken = await pushed(session, url, b'{"ref": "main"}', **{"X-GitHub-Delivery": "1"})
        replayed = await pushed(session, url, b'{"ref": "main"}', **{"X-GitHub-Delivery": "2"})

    assert (forged, strange, unknown, taken, replayed) == (400, 400, 404, 200, 409)
    await space.ready(revision=commit)


async def test_a_burst_of_hooks_costs_one_fetch(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a.yaml": config_map("a", v="1")})
    await space.world.apply(space.source(repository, interval="60m"))
    await space.world.until(GIT_REPOSITORY, space.namespace, "app", is_ready)
    url = await received(space, "generic")
    before = space.noted("source")
    commit = repository.commit({"a.yaml": config_map("a", v="2")})
    space.world.git.seen.clear()

    async with aiohttp.ClientSession() as session:
        answers = await asyncio.gather(*(pushed(session, url, b"") for _ in range(100)))
    asked = (await space.get(GIT_REPOSITORY, "app"))["metadata"]["annotations"]
    wanted = asked["reconcile.fluxcd.io/requestedAt"]
    await space.world.until(
        GIT_REPOSITORY,
        space.namespace,
        "app",
        lambda obj: obj["status"].get("lastHandledReconcileAt") == wanted,
    )

    await space.ready(GIT_REPOSITORY, revision=commit)
    path = repository.url.removeprefix(space.world.git.base)
    own = [each for each in space.world.git.seen if each.path.startswith(path)]

    assert set(answers) == {200}
    assert 0 < space.noted("source") - before <= FEW
    assert sum(b"command=fetch" in each.body for each in own) == 1


async def test_a_suspended_receiver_answers_so(space: Space) -> None:
    url = await received(space, "generic")
    await space.world.api.patch(
        RECEIVER, "app", space.namespace, {"spec": {"suspend": True}}, strategy="merge"
    )

    async with aiohttp.ClientSession() as session:

        async def refused() -> bool:
            return await pushed(session, url, b"") == 503

        assert await until(refused)


async def test_a_token_that_is_replaced_closes_the_old_path(space: Space) -> None:
    url = await received(space, "generic")
    await space.world.api.patch(
        SECRET, "hook", space.namespace, {"stringData": {"token": "other"}}, strategy="merge"
    )

    async with aiohttp.ClientSession() as session:
        assert await pushed(session, url, b"") == 404
