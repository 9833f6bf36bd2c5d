"""An artifact that is held, a copy of it, and a call for what is in it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp.test_utils import make_mocked_request
from multidict import MultiDict

from apiserver.artifacts.held import Held
from apiserver.call import Call, User
from toolkit.artifact.store import Owner

REVISION = "main@sha1:" + "4ab8f2c1" * 5


def held(kind: str = "GitRepository", **given: Any) -> Held:
    values: dict[str, Any] = {
        "owner": Owner(kind=kind, namespace="apps", name="web"),
        "api_version": "source.toolkit.fluxcd.io/v1",
        "source_uid": "u",
        "digest": "sha256:" + "a" * 64,
        "revision": REVISION,
        "size": 7,
        "file": "a.tar.gz",
        "path": "gitrepository/apps/web/a.tar.gz",
        "url": "http://store.example/gitrepository/apps/web/a.tar.gz",
        "stored": "2026-01-01T00:00:00Z",
        "current": True,
        "backend": "local",
    }
    return Held(**values | given)


class Copies:
    """Gives one local file for every artifact, and counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fetched: list[str] = []

    @asynccontextmanager
    async def file(self, artifact: Held, user: User) -> AsyncIterator[Path]:
        del user
        self.fetched.append(artifact.owner.name)
        yield self.path


def call() -> Call:
    web = make_mocked_request("GET", "/")
    return Call(web=web, user=User(name="ada"), verb="get", path="/", query=MultiDict())
