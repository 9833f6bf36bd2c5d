"""The reference registry (distribution), with a login, pushed to by a real client (oras)."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import oras.client
import pytest
import pytest_asyncio

from tests.fakes import distribution
from tests.fakes.registry import FLUX_CONTENT, tarball
from tests.loopback.oci.bench import NAME, PLAIN
from toolkit.remote.http.http import Endpoint, Http
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.registry import Registry, RegistryAuthError, RegistryNotFoundError, Tokens

USER, PASSWORD = distribution.LOGIN
ADA = replace(PLAIN, username=USER, password=PASSWORD)
LAYER = tarball({"app.yaml": "kind: ConfigMap\n"})


@pytest_asyncio.fixture
async def host(registry_program: Path, tmp_path: Path) -> AsyncIterator[str]:
    async with distribution.serve(registry_program, tmp_path / "registry", login=True) as running:
        yield running


@pytest_asyncio.fixture
async def pushed(host: str, tmp_path: Path) -> str:
    """Push an artifact as users do, and return its digest."""
    return await asyncio.to_thread(push, host, "1.0.0", tmp_path)


def push(host: str, tag: str, directory: Path, backend: str = "basic") -> str:
    client = oras.client.OrasClient(insecure=True, auth_backend=backend, tls_verify=False)
    client.auth.set_basic_auth(USER, PASSWORD)
    layer = directory / "layer.tar.gz"
    layer.write_bytes(LAYER)
    answer = client.push(
        target=f"{host}/{NAME}:{tag}",
        files=[f"{layer}:{FLUX_CONTENT}"],
        disable_path_validation=True,
        manifest_annotations={"org.opencontainers.image.revision": f"{tag}@sha1:abc"},
        quiet=True,
    )
    digest = answer.headers["Docker-Content-Digest"]
    client.session.close()
    return str(digest)


async def test_what_was_pushed_is_pulled(
    http: Http, host: str, pushed: str, tmp_path: Path
) -> None:
    registry, repository = Registry(http, ADA), Repository.parse(f"oci://{host}/{NAME}")

    found = await registry.resolve(repository, "1.0.0")
    manifest = await registry.manifest(repository, found.digest)
    await registry.blob(repository, manifest.layers[0], tmp_path / "blob", limit=1 << 20)

    assert found.digest == pushed
    assert found.size == len(manifest.raw)
    assert manifest.annotations == {"org.opencontainers.image.revision": "1.0.0@sha1:abc"}
    assert manifest.layers[0].media_type == FLUX_CONTENT
    assert (tmp_path / "blob").read_bytes() == LAYER


@pytest.mark.usefixtures("pushed")
async def test_tags_are_listed(http: Http, host: str, tmp_path: Path) -> None:
    await asyncio.to_thread(push, host, "2.0.0", tmp_path)

    tags = await Registry(http, ADA).tags(Repository.parse(f"oci://{host}/{NAME}"))

    assert sorted(tags) == ["1.0.0", "2.0.0"]


async def test_nothing_refers_to_what_nobody_signed(http: Http, host: str, pushed: str) -> None:
    repository = Repository.parse(f"oci://{host}/{NAME}")

    assert await Registry(http, ADA).referrers(repository, pushed) == ()


@pytest.mark.parametrize("reference", ["3.0.0", f"sha256:{hashlib.sha256(b'x').hexdigest()}"])
async def test_what_is_not_there_is_not_found(http: Http, host: str, reference: str) -> None:
    repository = Repository.parse(f"oci://{host}/{NAME}")

    with pytest.raises(RegistryNotFoundError):
        await Registry(http, ADA).resolve(repository, reference)


@pytest.mark.parametrize("endpoint", [PLAIN, replace(ADA, password="wrong")])
async def test_wrong_login_is_refused(http: Http, host: str, endpoint: Endpoint) -> None:
    registry = Registry(http, endpoint, tokens=Tokens())

    with pytest.raises(RegistryAuthError) as caught:
        await registry.resolve(Repository.parse(f"oci://{host}/{NAME}"), "1.0.0")

    assert caught.value.reason == "AuthenticationFailed"


async def test_token_is_had_for_pulling_alone(
    http: Http, registry_program: Path, tmp_path: Path
) -> None:
    async with (
        distribution.TokenService() as service,
        distribution.serve(registry_program, tmp_path / "registry", tokens=service) as host,
    ):
        pushed = await asyncio.to_thread(push, host, "1.0.0", tmp_path, "token")
        service.asked.clear()
        registry, repository = Registry(http, ADA), Repository.parse(f"oci://{host}/{NAME}")

        found = await registry.resolve(repository, "1.0.0")
        manifest = await registry.manifest(repository, found.digest)
        layer = await registry.read_blob(repository, manifest.layers[0], limit=1 << 20)
        tags = await registry.tags(repository)

    assert found.digest == pushed
    assert layer == LAYER
    assert tags == ("1.0.0",)
    assert [scope for scope, _ in service.asked] == [f"repository:{NAME}:pull"]
