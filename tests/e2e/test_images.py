"""Images forward: from a tag in a registry to a signed commit, and what may not be used for it."""

from collections.abc import Callable

import asyncssh
import msgspec
import pytest

from tests.e2e.conftest import Space, condition
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
from tests.fakes.gitrepository import Repository
from tests.fakes.registry import FakeRegistry
from tests.tools.command import Ended, penstock
from toolkit.objects import Json
from toolkit.remote.git import objects
from toolkit.verify import ssh

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_new_image_becomes_a_signed_commit(space: Space) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    fleet = space.repository("app")
    fleet.accept_pushes()
    async with FakeRegistry() as server:
        server.push(NAME, "1.0.0", [b"1"])
        fleet.commit({"apps/web.yaml": marked(space, server, "0.9.0"), "other.yaml": "a: 1\n"})
        commit = {
            "author": {"name": "bot", "email": "bot@example.com"},
            # a seed's template, for the older field
            "messageTemplate": "chore: update {{range .Updated.Images}}{{.}}{{end}}",
            "signingKey": {"type": "ssh", "secretRef": {"name": "signing"}},
        }
        await space.world.apply(
            space.source(fleet),
            secret(space, "signing", {"identity": key.export_private_key()}),
            repository_of(space, server),
            policy(space),
            automation(space, "v1beta2", commit=commit, push={"branch": "main"}),
        )
        first = await space.ready(AUTOMATION)
        await pushed(space, fleet, marked(space, server, "1.0.0"))

        server.push(NAME, "1.1.0", [b"2"])
        await space.request(IMAGE_REPOSITORY)
        await pushed(space, fleet, marked(space, server, "1.1.0"))

    obj = await until(space, lambda o: o["status"].get("lastPushCommit") == tip(fleet))
    assert condition(first, "Ready")["message"] == "repository up-to-date"
    assert obj["status"]["observedPolicies"]["app"]["tag"] == "1.1.0"
    assert obj["status"]["observedSourceRevision"] == f"main@sha1:{tip(fleet)}"
    chosen = await space.ready(IMAGE_POLICY)
    assert condition(chosen, "Ready")["message"] == (
        f"Latest image tag for {server.host}/{NAME} resolved to 1.1.0 "
        f"(previously {server.host}/{NAME}:1.0.0)"
    )
    raw = fleet.git("cat-file", "commit", "main")
    signed = objects.parse_commit(raw)
    assert signed.subject == f"chore: update {server.host}/{NAME}:1.1.0"
    assert signed.signature is not None
    ssh.verify(signed.signature, {"bot.sshpub": key.export_public_key()})


def tip(fleet: Repository) -> str:
    return fleet.revision("main")


async def pushed(space: Space, fleet: Repository, content: str) -> None:
    """Wait until the file has a content: an automation writes its status after each push."""
    await until(space, lambda _: fleet.content("apps/web.yaml") == content)


async def until(space: Space, holds: Callable[[Json], bool]) -> Json:
    """Return the automation once it holds."""
    return await space.world.until(AUTOMATION, space.namespace, "app", holds)


async def test_a_preview_shows_what_would_be_pushed_and_pushes_nothing(space: Space) -> None:
    fleet = space.repository("app")
    fleet.accept_pushes()
    async with FakeRegistry() as server:
        server.push(NAME, "1.0.0", [b"1"])
        before = fleet.commit({"apps/web.yaml": marked(space, server, "0.9.0")})
        suspended = automation(space, push={"branch": "images"})
        suspended["spec"]["suspend"] = True
        await space.world.apply(
            space.source(fleet), repository_of(space, server), policy(space), suspended
        )
        await space.ready(IMAGE_POLICY)

        told = await preview(space)
        document = msgspec.json.decode((await preview(space, "-o", "json")).out)

    image = f"{server.host}/{NAME}"
    assert told.code == 0, told
    assert f"-image: {image}:0.9.0 #" in told.out
    assert f"+image: {image}:1.0.0 #" in told.out
    assert "'refs/heads/images' would get a commit" in told.out + told.err
    assert document["base"] == f"main@sha1:{before}"
    assert document["message"] == "Update from image update automation\n"
    (file,) = document["files"]
    assert (file["path"], file["changes"][0]["new"]) == ("apps/web.yaml", f"{image}:1.0.0")
    assert (tip(fleet), fleet.revision("images")) == (before, "")


async def preview(space: Space, *more: str) -> Ended:
    arguments = ("preview", "automation", "app", "-n", space.namespace, *more)
    return await penstock(space.world.plane.kubeconfig, *arguments)
