"""What the tests of sources share: Secrets, what an artifact holds, what a Git server was asked."""

import base64
import hashlib
import io
import tarfile
from collections.abc import Mapping
from typing import Any

import aiohttp

from tests.e2e.conftest import (
    EVENT,
    GIT_REPOSITORY,
    SECRET,
    Space,
    condition,
    is_ready,
)
from tests.fakes.gitrepository import Repository
from tests.fakes.gitserver import GitServer
from tests.tools.waiting import until
from toolkit.objects import Json


def secret(space: Space, name: str, data: Mapping[str, str | bytes]) -> Json:
    """Return a Secret of the test's namespace."""
    raw = {key: value.encode() if isinstance(value, str) else value for key, value in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": space.namespace},
        "data": {key: base64.b64encode(value).decode() for key, value in raw.items()},
    }


async def replace(space: Space, name: str, data: Mapping[str, str | bytes]) -> None:
    """Give a Secret this content and no other."""
    await space.world.api.delete(SECRET, name, space.namespace)
    await space.world.gone(SECRET, space.namespace, name)
    await space.world.apply(secret(space, name, data))


async def edit(space: Space, change: Json, name: str = "app") -> Json:
    """Change the spec of a GitRepository as a user would."""
    return await space.world.api.patch(
        GIT_REPOSITORY, name, space.namespace, {"spec": change}, strategy="merge"
    )


async def ready(space: Space, *names: str) -> dict[str, Json]:
    """Return these GitRepositories once all of them are Ready."""
    return {name: await space.ready(GIT_REPOSITORY, name) for name in names}


async def refused(space: Space, *names: str) -> dict[str, Json]:
    """Return these GitRepositories once all of them are Ready=False at their generation."""

    def holds(obj: Json) -> bool:
        row = condition(obj, "Ready")
        current = row.get("observedGeneration") == obj["metadata"]["generation"]
        return row.get("status") == "False" and current

    until = space.world.until
    return {name: await until(GIT_REPOSITORY, space.namespace, name, holds) for name in names}


async def rebuilt(space: Space, before: Json) -> Json:
    """Return a GitRepository once it is Ready with another artifact than it had."""

    def holds(obj: Json) -> bool:
        return is_ready(obj) and obj["status"]["artifact"]["digest"] != digest_of(before)

    name = before["metadata"]["name"]
    return await space.world.until(GIT_REPOSITORY, space.namespace, name, holds)


def artifact_of(source: Json) -> Any:
    """Return the artifact in a status."""
    return source["status"]["artifact"]


def digest_of(source: Json) -> str:
    """Return the digest of the artifact in a status."""
    return str(artifact_of(source)["digest"])


async def content(source: Json) -> dict[str, str]:
    """Return the files of the artifact that a status names, fetched as a consumer does."""
    artifact = artifact_of(source)
    async with aiohttp.ClientSession() as session, session.get(artifact["url"]) as response:
        assert response.status == 200
        data = await response.read()
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == artifact["digest"]
    assert len(data) == artifact["size"]
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {
            member.name: archive.extractfile(member).read().decode()  # type: ignore[union-attr]  # a file
            for member in archive.getmembers()
            if member.isfile()
        }


async def told(space: Space, reason: str, name: str = "app") -> list[Json]:
    """Return the events about a GitRepository with this reason, once there is one."""
    selector = f"involvedObject.kind=GitRepository,involvedObject.name={name},reason={reason}"
    found: list[Json] = await until(
        lambda: space.world.api.list(EVENT, space.namespace, field_selector=selector)
    )
    return found


def fetches(server: GitServer, repository: Repository) -> int:
    """Return how often objects of a repository were asked for."""
    return _asked(server, repository, b"command=fetch")


def looks(server: GitServer, repository: Repository) -> int:
    """Return how often references of a repository were asked for."""
    return _asked(server, repository, b"command=ls-refs")


def _asked(server: GitServer, repository: Repository, command: bytes) -> int:
    return sum(
        f"/{repository.path.name}/" in request.path and command in request.body
        for request in server.seen
    )
