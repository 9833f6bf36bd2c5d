"""Google Cloud KMS: which key is asked, as whom, and what refusals mean."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.fakes import kmsgcp
from tests.fakes.keyscene import ISSUER, WORD, Scene

CLEAR = f"word: {WORD}\n".encode()
KMS = "cloudkms.googleapis.com:443"
AUDIENCE = "projects/1/locations/global/workloadIdentityPools/fleet/providers/near"


async def test_a_key_of_an_account_is_exchanged_at_google_whatever_its_file_says(
    scene: Scene,
) -> None:
    document = scene.document(gcp_kms=[scene.gcp_kms()])

    assert await scene.read(document, scene.gcp_secret) == CLEAR
    assert scene.clouds.dialled == ["oauth2.googleapis.com:443", KMS]


async def test_an_account_of_the_cluster_signs_in_by_federation(scene: Scene) -> None:
    subject = "system:serviceaccount:team:app"
    scene.clouds.gcp.providers[f"//iam.googleapis.com/{AUDIENCE}"] = (
        ISSUER.url,
        f"//iam.googleapis.com/{AUDIENCE}",
    )
    scene.gcp.allowed = {subject}
    account = ISSUER.identity(
        annotations={"gcp.auth.fluxcd.io/workload-identity-provider": AUDIENCE}
    )

    assert await scene.read(scene.document(gcp_kms=[scene.gcp_kms()]), account=account) == CLEAR
    assert scene.clouds.dialled[-1] == KMS


@pytest.mark.parametrize(
    "name",
    [
        "",
        "projects/a/locations/b/keyRings/c",
        "projects/../locations/b/keyRings/c/cryptoKeys/d",
        f"{kmsgcp.KEY}/cryptoKeyVersions/1",
        f"{kmsgcp.KEY}:encrypt?x=",
        f"/{kmsgcp.KEY}",
        f"{kmsgcp.KEY}%2f..",
        "https://attacker.example/",
    ],
)
async def test_what_is_no_crypto_key_is_asked_of_nobody(scene: Scene, name: str) -> None:
    document = scene.document(gcp_kms=[scene.gcp_kms(resource_id=name)])

    await scene.refused(document, scene.gcp_secret)

    assert KMS not in scene.clouds.dialled


async def test_refusals_are_told_apart(scene: Scene) -> None:
    secret = scene.gcp_secret
    good = scene.document(gcp_kms=[scene.gcp_kms()])
    absent = scene.document(gcp_kms=[scene.gcp_kms(resource_id=f"{kmsgcp.KEY}2")])
    foreign = scene.document(gcp_kms=[scene.gcp_kms(enc="A" * 64)])

    missing = str(await scene.refused(absent, secret))
    altered = str(await scene.refused(foreign, secret))
    scene.gcp.allowed.clear()
    refused = str(await scene.refused(good, secret))

    assert "does not exist (HTTP 404 NOT_FOUND)" in missing
    assert "cannot decrypt the data key (HTTP 400 INVALID_ARGUMENT)" in altered
    assert refused == (
        f"Google Cloud KMS key '{kmsgcp.KEY}' refuses entry 'sops.gcp-kms' of the Secret"
        " (HTTP 403 PERMISSION_DENIED): grant it roles/cloudkms.cryptoKeyDecrypter on the key"
    )


async def test_a_key_that_google_does_not_know_is_told(scene: Scene) -> None:
    document, secret = scene.document(gcp_kms=[scene.gcp_kms()]), scene.gcp_secret
    scene.gcp.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    error = await scene.refused(document, secret)

    assert "see its key in 'sops.gcp-kms'" in str(error)


async def test_a_private_key_that_is_none_is_told(scene: Scene) -> None:
    given = scene.gcp.account(private_key="nonsense")

    error = await scene.refused(
        scene.document(gcp_kms=[scene.gcp_kms()]), {"sops.gcp-kms": json.dumps(given).encode()}
    )

    assert "is not a PEM private key" in str(error)
    assert scene.clouds.dialled == []
