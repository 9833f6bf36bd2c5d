"""What a release pushes and signs is what our own policies, and cosign itself, accept."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives import serialization

from controlplane.node import image
from crds.source_oci import OCIRepository
from release import charts, cutting
from release.cutting import Pushable
from release.errors import ReleaseError, UnavailableError
from release.publishing import PASSWORD, USERNAME, Repository
from release.signing import Signer
from tests.fakes import distribution, imagescene
from tests.fakes.distribution import TokenService
from tests.fakes.imagescene import KEY, STRANGER, ImageScene
from tests.fakes.registry import FakeRegistry
from tests.loopback.oci import bench as benches
from toolkit.remote.http.http import Http
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.signature import VerificationError
from toolkit.verify.verifications import Means, Verifications

CHART: Final = "charts/penstock"
VERIFY: Final = {"provider": "cosign", "secretRef": {"name": "keys"}}


@pytest.fixture
async def server() -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry() as running:
        yield running


@pytest.fixture
async def scene(server: FakeRegistry) -> AsyncIterator[ImageScene]:
    async with imagescene.running(server) as running:
        yield running


def at(host: str, path: str) -> Repository:
    return Repository(f"{host}/{path}", plain_http=True)


def image_for(repository: Repository, content: bytes = b"program") -> Pushable:
    packed = image.archive("penstock:v1", {"/p": content}, entrypoint=["/p"])
    return cutting.layout(packed, repository, "v1")


def chart_for(repository: Repository) -> Pushable:
    return cutting.packaged(*charts.blobs(charts.package()), repository, "1.0.0")


async def publish(*pushables: Pushable, signer: Signer | None = None) -> None:
    await asyncio.to_thread(cutting.publish, pushables, signer)


async def test_an_image_is_admitted_that_the_key_of_the_release_signed(scene: ImageScene) -> None:
    scene.require("acme/*")

    await publish(image_for(at(scene.registry.host, "acme/penstock")), signer=Signer(KEY))

    await scene.admit(scene.pod("acme/penstock:v1"))


@pytest.mark.parametrize("signer", [None, Signer(STRANGER)])
async def test_an_image_is_refused_that_it_did_not_sign(
    scene: ImageScene, signer: Signer | None
) -> None:
    scene.require("acme/*")

    await publish(image_for(at(scene.registry.host, "acme/penstock")), signer=signer)

    assert "sign" in str(await scene.refusal(scene.pod("acme/penstock:v1")))


def source(http: Http, tmp_path: Path) -> benches.Bench:
    """Return an OCIRepository's source that verifies with the public key of the release."""
    unused: Any = None
    means = Means(public_root=PublicRoot(offline=True), pool=unused, revocations=unused)
    made = benches.make(http, tmp_path, verify=Verifications(means).verify)
    made.cluster.held["keys"] = {"cosign.pub": Signer(KEY).public()}
    return made


def wanted(server: FakeRegistry) -> OCIRepository:
    media_type = charts.blobs(b"")[1].media_type
    layer = {"mediaType": media_type, "operation": "copy"}
    return benches.obj(server, CHART, ref={"tag": "1.0.0"}, verify=VERIFY, layerSelector=layer)


async def test_a_chart_is_fetched_whose_signature_an_oci_repository_demands(
    http: Http, server: FakeRegistry, tmp_path: Path
) -> None:
    bench = source(http, tmp_path)

    await publish(chart_for(at(server.host, CHART)), signer=Signer(KEY))
    await bench.fetch(wanted(server))

    (fetched,) = [path for path in bench.into.rglob("*") if path.is_file()]
    assert fetched.read_bytes() == charts.package()


async def test_a_chart_is_not_fetched_that_another_key_signed(
    http: Http, server: FakeRegistry, tmp_path: Path
) -> None:
    bench = source(http, tmp_path)

    await publish(chart_for(at(server.host, CHART)), signer=Signer(STRANGER))

    with pytest.raises(VerificationError):
        await bench.fetch(wanted(server))


async def test_the_same_is_published_again(server: FakeRegistry) -> None:
    one = image_for(at(server.host, "acme/penstock"))

    await publish(one, signer=Signer(KEY))
    await publish(one, signer=Signer(KEY))


async def test_a_version_with_another_content_is_left_alone(server: FakeRegistry) -> None:
    repository = at(server.host, "acme/penstock")
    await publish(image_for(repository))
    before = dict(server.tags["acme/penstock"])

    with pytest.raises(ReleaseError, match=r"v1 exists .* choose a new version"):
        await publish(chart_for(at(server.host, CHART)), image_for(repository, b"other"))

    assert server.tags["acme/penstock"] == before
    assert CHART not in server.tags


async def test_a_registry_that_is_not_there_is_named() -> None:
    with pytest.raises(
        UnavailableError, match=r"http://127\.0\.0\.1:1/v2/acme/penstock/.* reached"
    ):
        await publish(image_for(at("127.0.0.1:1", "acme/penstock")))


@pytest.mark.parametrize("by_token", [False, True])
async def test_a_registry_with_a_login_takes_what_cosign_verifies(
    *,
    by_token: bool,
    registry_program: Path,
    cosign_program: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(USERNAME, distribution.LOGIN[0])
    monkeypatch.setenv(PASSWORD, distribution.LOGIN[1])
    key = tmp_path / "cosign.pub"
    key.write_bytes(Signer(KEY).public())
    async with TokenService() as tokens:
        how: dict[str, Any] = {"tokens": tokens} if by_token else {"login": True}
        async with distribution.serve(registry_program, tmp_path / "registry", **how) as host:
            await publish(image_for(at(host, "acme/penstock")), signer=Signer(KEY))
            if not by_token:
                answer = await asyncio.to_thread(
                    cosign, cosign_program, tmp_path, key, f"{host}/acme/penstock:v1"
                )
                assert answer.returncode == 0, answer.stderr


def cosign(
    program: Path, home: Path, key: Path, reference: str
) -> "subprocess.CompletedProcess[str]":
    name, password = distribution.LOGIN
    return subprocess.run(
        [
            *(program, "verify", f"--key={key}", "--insecure-ignore-tlog=true"),
            *("--private-infrastructure=true", "--allow-http-registry=true"),
            *(f"--registry-username={name}", f"--registry-password={password}", reference),
        ],
        env={"HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_blob_is_signed_as_cosign_verifies_it(cosign_program: Path, tmp_path: Path) -> None:
    signer = Signer(KEY)
    for name, content in {
        "blob": b"a file",
        "blob.sig": signer.blob(b"a file"),
        "cosign.pub": signer.public(),
    }.items():
        (tmp_path / name).write_bytes(content)

    answer = subprocess.run(
        [
            *(cosign_program, "verify-blob", "--key=cosign.pub", "--signature=blob.sig"),
            *("--insecure-ignore-tlog=true", "--private-infrastructure=true", "blob"),
        ],
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert answer.returncode == 0, answer.stderr


def test_a_key_that_is_encrypted_is_opened_with_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(
        KEY.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(ReleaseError, match="taken from COSIGN_PASSWORD"):
        Signer.load(path)

    monkeypatch.setenv("COSIGN_PASSWORD", "secret")

    assert Signer.load(path).public() == Signer(KEY).public()
