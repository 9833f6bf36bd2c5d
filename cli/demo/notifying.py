"""A push that a webhook announces, and an alert that reports its changes."""

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
from aiohttp import web

from apiserver.cells import shorten
from cli import errors, status
from cli.demo import narration, sample
from cli.demo.stage import PATIENCE, Stage
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig

NAME: Final = "pushes"
_GROUP: Final = "notification.toolkit.fluxcd.io"
PROVIDER: Final = ObjectRef(GroupVersionKind(_GROUP, "v1", "Provider"), sample.NAMESPACE, NAME)
ALERT: Final = ObjectRef(GroupVersionKind(_GROUP, "v1", "Alert"), sample.NAMESPACE, NAME)
RECEIVER: Final = ObjectRef(GroupVersionKind(_GROUP, "v1", "Receiver"), sample.NAMESPACE, NAME)
_SHOWN: Final = ("changes", "account", "revision")


class Service:
    """A service on loopback that receives events unchanged."""

    def __init__(self) -> None:
        self._taken: asyncio.Queue[Json] = asyncio.Queue()
        self.address = ""

    async def take(self, request: web.Request) -> web.Response:
        """Keep an event."""
        self._taken.put_nowait(json.loads(await request.read()))
        return web.Response()

    async def receive(self, commit: str) -> Json:
        """Wait for the event about the changes of a commit."""
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    event = await self._taken.get()
                    metadata = event.get("metadata") or {}
                    if metadata.get("changes") and str(metadata.get("revision")).endswith(commit):
                        return event
        except TimeoutError as exc:
            raise errors.DeadlineError("the alert has not arrived") from exc


async def by_hook(stage: Stage) -> None:
    """Announce a push by a webhook, wait until it is Ready, and receive the alert."""
    narration.chapter("11. A webhook announces a push, and an alert reports what changed")
    async with _open_service() as service:
        token = secrets.token_hex(16)
        await stage.kubectl.apply(*_objects(service.address, token))
        await stage.until(PROVIDER, _ready, "the Provider is not Ready")
        receiver = await stage.until(RECEIVER, _ready, "the Receiver is not Ready")
        news = {"deploy/news.yaml": sample.config_map("news", text="Tea for one coin")}
        commit = await stage.repository.commit("Tell the news", write=news)
        url = f"http://{stage.penstock.hooks_address}{dig(receiver, 'status', 'webhookPath')}"
        with narration.step("git push, signed hook of the Git host: until Ready") as clock:
            await _announce(url, token, commit)
            obj = await stage.applied(commit)
            clock.stop()
            clock.note = shorten(status.readiness(obj).message)
        with narration.step("the alert arrives at a local service") as clock:
            event = await service.receive(commit)
            clock.stop()
            clock.note = _told(event)
        await stage.kubectl("delete", "alert,provider", NAME, "-n", sample.NAMESPACE)


async def _announce(url: str, token: str, commit: str) -> None:
    """Send what GitHub sends after a push."""
    body = json.dumps({"ref": "refs/heads/main", "after": commit}).encode()
    digest = hmac.new(token.encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Event": "push"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, headers=headers) as response,
    ):
        if response.status != 200:
            raise errors.FailedError(f"the hook was answered with HTTP {response.status}")


def _told(event: Json) -> str:
    metadata = event["metadata"]
    title = f"{event['involvedObject']['kind']}/{event['involvedObject']['name']}"
    said = [f"{name + ':':<10}{metadata[name]}" for name in _SHOWN if name in metadata]
    return "\n".join([f"{title}: {event['message']}", *said])


def _ready(obj: Json | None) -> bool:
    return obj is not None and status.settled(obj)


def _objects(address: str, token: str) -> tuple[Json, ...]:
    followed = {"kind": sample.KUSTOMIZATION.gvk.kind, "name": sample.KUSTOMIZATION.name}
    source = {"kind": sample.GIT_REPOSITORY.gvk.kind, "name": sample.GIT_REPOSITORY.name}
    hook = {"type": "github", "events": ["push"], "secretRef": {"name": NAME}}
    return (
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": NAME, "namespace": sample.NAMESPACE},
            "stringData": {"token": token},
        },
        sample.custom(PROVIDER, {"type": "generic", "address": address}),
        sample.custom(ALERT, {"providerRef": {"name": NAME}, "eventSources": [followed]}),
        sample.custom(RECEIVER, {**hook, "resources": [source]}),
    )


@asynccontextmanager
async def _open_service() -> AsyncIterator[Service]:
    service, app = Service(), web.Application()
    app.router.add_post("/", service.take)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        service.address = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        yield service
    finally:
        await runner.cleanup()
