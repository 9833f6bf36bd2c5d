"""``trigger receiver``: what arrives at the endpoint of hooks is what ``flux`` would send."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controllers.notification.receiving import senders
from tests.contract.cli.conftest import Flux, custom
from tests.fakes import notificationspecs
from tests.fakes.serving import Seen, serving

TOKEN = "s3cret"
SECRET_PATH = "/hook/0123456789abcdef"
BODY = '{"image": "registry.example.com/app:1"}'


@dataclass
class Endpoint:
    """Where hooks are taken: what came, and the status to answer with."""

    url: str = ""
    status: int = 200
    seen: list[Seen] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.seen.append(Seen(request.method, request.path_qs, dict(request.headers), body))
        return web.Response(status=self.status)


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    made = Endpoint()
    async with serving(made.answer) as port:
        made.url = f"http://localhost:{port}"
        yield made


def receiver(cluster: Any, kind: str, path: str) -> None:
    """Write a Receiver with its Secret, and the path that its controller tells."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}}
    cluster.write({**secret, "stringData": {"token": TOKEN}})
    spec = {**notificationspecs.RIGHT["Receiver"], "type": kind}
    status = {"webhookPath": path} if path else None
    cluster.write(custom("notification.toolkit.fluxcd.io", "Receiver", "hook", spec), status=status)


def sent(seen: Seen) -> tuple[str, str, bytes, str | None]:
    """Return what counts of a request."""
    return seen.method, seen.path, seen.body, seen.headers.get("X-Signature")


@pytest.mark.parametrize("kind", ["generic", "generic-hmac"])
async def test_both_send_the_same_request(
    cluster: Any, penstock: Any, flux: Flux, endpoint: Endpoint, kind: str
) -> None:
    receiver(cluster, kind, senders.path(TOKEN.encode(), "hook", cluster.namespace))
    words = ("trigger", "receiver", "hook", f"--payload={BODY}", "-n", cluster.namespace)
    offline = (*words, f"--url={endpoint.url}", f"--token={TOKEN}", f"--type={kind}")

    ours = await asyncio.to_thread(penstock, *words, f"--address={endpoint.url}")
    alone = await asyncio.to_thread(penstock, *offline, "--kubeconfig=/nowhere")
    theirs = await asyncio.to_thread(flux, *offline)

    assert (ours.code, alone.code, theirs.code) == (0, 0, 0), ours.err + alone.err + theirs.err
    asked, token, other = map(sent, endpoint.seen)
    assert asked == token == other
    assert bool(asked[3]) is (kind == "generic-hmac")
    assert TOKEN not in ours.out + ours.err


async def test_a_refusal_and_what_is_missing_are_told(
    cluster: Any, penstock: Any, endpoint: Endpoint
) -> None:
    receiver(cluster, "github", "")
    words = ("trigger", "receiver", "hook", "-n", cluster.namespace, f"--url={endpoint.url}")
    endpoint.status = 403

    pathless = await asyncio.to_thread(penstock, *words)
    receiver(cluster, "github", SECRET_PATH)
    refused = await asyncio.to_thread(penstock, *words)
    garbled = await asyncio.to_thread(penstock, *words, "--payload=no json")
    receiver(cluster, "gcr", SECRET_PATH)
    issued = await asyncio.to_thread(penstock, *words)

    assert {each.code for each in (pathless, refused, garbled, issued)} == {1}
    assert "has no path yet" in pathless.err
    assert "the request was not accepted" in refused.err
    assert SECRET_PATH not in refused.err, "it is what senders of some types prove themselves with"
    assert "is not a JSON object, and no file" in garbled.err
    assert "--oidc-token" in issued.err
    assert len(endpoint.seen) == 1


async def test_a_secret_of_a_receiver_is_written_with_its_address(
    cluster: Any, penstock: Any
) -> None:
    words = ("create", "secret", "receiver", "hook", "--type=github", "--hostname=h.example.com")
    here = ("-n", cluster.namespace)

    made = await asyncio.to_thread(penstock, *words, *here)
    first = cluster.read("Secret", "hook")
    again = await asyncio.to_thread(penstock, *words, f"--token={TOKEN}", *here)
    second = cluster.read("Secret", "hook")

    assert (made.code, again.code) == (0, 0)
    path = senders.path(TOKEN.encode(), "hook", cluster.namespace)
    (address,) = second["metadata"]["annotations"].values()
    assert address == f"https://h.example.com{path}"
    assert first["data"]["token"] != second["data"]["token"]
    assert first["metadata"]["annotations"] != second["metadata"]["annotations"]


def test_logs_of_a_directory_without_logs_name_it(tmp_path: Path, penstock: Any) -> None:
    result = penstock("logs", "--state", str(tmp_path))

    assert result.code == 1
    assert f"there are no logs in {tmp_path}: name the --state of `penstock up`" in result.err
