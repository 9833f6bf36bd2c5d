"""A HelmRepository's passes: what is asked, what is stored, what is told."""

import hashlib
import json
import ssl
from pathlib import Path

import pytest
import trustme

from controllers.source import helmrepository
from tests.fakes.chartrepository import ChartRepository
from tests.fakes.chartscene import World
from tests.fakes.passes import condition
from tests.fakes.serving import certified
from toolkit.chart.errors import IndexationError
from toolkit.errors import StalledError, TransientError
from toolkit.remote.http.http import HttpError


async def test_index_becomes_an_artifact(world: World, server: ChartRepository) -> None:
    server.add()
    obj = world.repository(server.url)

    obj = await world.index(obj)

    artifact = obj.status.artifact
    assert artifact is not None
    # Flux digests the index as it was sent, whatever it is kept as.
    digest = hashlib.sha256(server.index).hexdigest()
    assert artifact.revision == f"sha256:{digest}"
    assert artifact.path == f"helmrepository/apps/charts/index-{digest}.yaml"
    assert obj.status.url.startswith("http://artifacts.test/helmrepository/apps/charts/")
    assert condition(obj, "ArtifactInStorage") == (
        *("True", "Succeeded"),
        f"stored artifact: revision '{artifact.revision}'",
    )
    assert world.cluster.events[0].message == (
        f"stored fetched index of size {len(server.index)}B from '{server.url}'"
    )
    async with world.store.local(artifact) as path:
        assert list(json.loads(path.read_bytes())["entries"]) == ["podinfo"]


async def test_unchanged_index_is_not_read_again(world: World, server: ChartRepository) -> None:
    server.add()
    obj = world.repository(server.url)
    before = await world.index(obj)

    after = await world.index(obj)

    assert after.status.artifact == before.status.artifact
    assert world.workers.asked == ["index"]
    assert [request.headers.get("If-None-Match") is None for request in server.seen] == [
        True,
        False,
    ]


async def test_after_a_restart_the_index_is_fetched_once(
    world: World, server: ChartRepository
) -> None:
    server.add()
    obj = world.repository(server.url)
    before = await world.index(obj)
    world.restart()

    await world.index(obj)
    after = await world.index(obj)

    assert after.status.artifact == before.status.artifact
    assert world.workers.asked == ["index"] * 2
    assert len(world.cluster.events) == 1


async def test_server_without_validators_is_asked_for_all(
    world: World, server: ChartRepository
) -> None:
    server.add()
    server.validators = False
    obj = world.repository(server.url)
    await world.index(obj)

    await world.index(obj)

    assert world.workers.asked == ["index"] * 2
    assert len(world.cluster.events) == 1


async def test_new_chart_makes_a_new_artifact(world: World, server: ChartRepository) -> None:
    server.add()
    obj = world.repository(server.url)
    before = await world.index(obj)
    server.add(version="6.0.1")

    after = await world.index(obj)

    assert after.status.artifact != before.status.artifact
    assert len(world.cluster.events) == 2


async def test_index_that_was_lost_is_fetched_again(world: World, server: ChartRepository) -> None:
    server.add()
    obj = world.repository(server.url)
    before = await world.index(obj)
    assert before.status.artifact is not None
    (world.store.root / before.status.artifact.path).unlink()

    after = await world.index(obj)

    assert after.status.artifact is not None
    assert after.status.artifact.digest == before.status.artifact.digest
    assert await world.store.intact(after.status.artifact)


async def test_other_url_is_asked_without_the_old_validators(
    world: World, server: ChartRepository, elsewhere: ChartRepository
) -> None:
    server.add()
    elsewhere.add()
    await world.index(world.repository(server.url))

    await world.index(world.repository(elsewhere.url))

    assert "If-None-Match" not in elsewhere.seen[0].headers


@pytest.mark.parametrize(
    ("secret", "works"),
    [
        ({"username": b"me", "password": b"secret\n"}, True),
        ({"username": b"me", "password": b"wrong"}, False),
        ({}, False),
        ({"username": b"me"}, False),
        ({"username": b"me", "password": b"secret", "certFile": b"x"}, False),
    ],
)
async def test_login_comes_from_the_secret(
    world: World, secret: dict[str, bytes], *, works: bool
) -> None:
    world.secrets.values["login"] = secret
    async with ChartRepository(login=("me", "secret")) as server:
        server.add()
        obj = world.repository(server.url, secret_ref="login")
        if works:
            assert (await world.index(obj)).status.artifact
            return
        with pytest.raises(TransientError) as caught:
            await world.index(obj)

    asked = str(caught.value).startswith("failed to fetch Helm repository index: ")
    assert caught.value.reason == ("Failed" if asked else "AuthenticationFailed")
    assert asked == ("certFile" not in secret and len(secret) != 1)
    assert "secret\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "data", "works"),
    [
        ({"cert_secret_ref": "tls"}, ("ca.crt", "tls.crt", "tls.key"), True),
        ({"cert_secret_ref": "tls"}, ("caFile", "certFile", "keyFile"), True),
        ({"secret_ref": "tls"}, ("caFile", "certFile", "keyFile"), True),
        ({"cert_secret_ref": "tls"}, ("ca.crt",), False),
        ({"cert_secret_ref": "tls"}, ("ca.crt", "tls.crt"), False),
        ({"cert_secret_ref": "tls"}, (), False),
        ({"cert_secret_ref": "gone"}, (), False),
        ({}, (), False),
    ],
)
async def test_certificates_come_from_a_secret(
    world: World, spec: dict[str, str], data: tuple[str, ...], *, works: bool
) -> None:
    authority = trustme.CA()
    client = authority.issue_cert("client.test")
    pem = (
        authority.cert_pem.bytes(),
        client.cert_chain_pems[0].bytes(),
        client.private_key_pem.bytes(),
    )
    world.secrets.values["tls"] = dict(zip(data, pem, strict=False))
    context = certified(authority, "127.0.0.1", clients=ssl.CERT_REQUIRED)
    async with ChartRepository(tls=context) as server:
        server.add()
        obj = world.repository(server.url, **spec)
        if works:
            assert (await world.index(obj)).status.artifact
            return
        with pytest.raises(TransientError):
            await world.index(obj)


async def test_missing_secret_is_named(world: World, server: ChartRepository) -> None:
    with pytest.raises(TransientError, match="'apps/gone' not found") as caught:
        await world.index(world.repository(server.url, secret_ref="gone"))

    assert caught.value.reason == "AuthenticationFailed"


async def test_index_that_is_none_keeps_the_old_one(world: World, server: ChartRepository) -> None:
    server.add()
    obj = world.repository(server.url)
    before = await world.index(obj)
    server.index = b"<html>Sorry</html>"

    with pytest.raises(IndexationError):
        await world.index(obj)

    after = world.cluster.objects["HelmRepository", "apps", "charts"]
    assert after.status.artifact == before.status.artifact
    assert condition(after, "FetchFailed")[:2] == ("True", "IndexationFailed")


async def test_server_that_is_gone_is_a_failure_of_fetching(world: World) -> None:
    obj = world.repository("http://127.0.0.1:1/charts")

    with pytest.raises(HttpError):
        await world.index(obj)

    failed = world.cluster.objects["HelmRepository", "apps", "charts"]
    assert condition(failed, "FetchFailed")[:2] == ("True", "Failed")


async def test_url_of_a_registry_needs_the_type(world: World) -> None:
    with pytest.raises(StalledError, match=r"set spec\.type to 'oci'") as caught:
        await world.index(world.repository("oci://registry.test/charts"))

    assert caught.value.reason == "URLInvalid"


def test_repository_of_type_oci_is_static(tmp_path: Path) -> None:
    world = World(None, tmp_path)  # type: ignore[arg-type]  # nothing is asked

    assert helmrepository.static(world.repository("oci://registry.test/charts", type="oci"))
    assert not helmrepository.static(world.repository("https://charts.test"))


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0B"), (999, "999B"), (1000, "1kB"), (30_500, "30.5kB"), (12_345_678, "12.35MB")],
)
def test_sizes_are_shown_as_flux_shows_them(size: int, shown: str) -> None:
    assert helmrepository.human_size(size) == shown
