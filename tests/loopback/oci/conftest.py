"""Registries on loopback, and the client that asks them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.registry import FakeRegistry
from tests.loopback.oci import bench as benches
from toolkit.remote.http.http import Http
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.registry import Registry, Tokens


@pytest.fixture
async def server() -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry() as running:
        yield running


@pytest.fixture
def repository(server: FakeRegistry) -> Repository:
    return Repository.parse(server.url(benches.NAME))


@pytest.fixture
def registry(http: Http) -> Registry:
    return Registry(http, benches.PLAIN, tokens=Tokens(), timeout=10)


@pytest.fixture
def bench(http: Http, tmp_path: Path) -> benches.Bench:
    return benches.make(http, tmp_path)
