"""What the real sops encrypts at key services is what we decrypt there.

The services are stand-ins, which sops asks through its own clients, the clouds' SDKs among them: so
what answers us are servers that sops took for real ones.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from tests.fakes import keyscene, kmsaws, kmsazure, kmsgcp
from tests.fakes.keyscene import Scene
from tests.fakes.kmsvault import TOKEN
from tests.fakes.serving import serving

PLAIN = Path(__file__).parent / "plain" / "secret.yaml"

Encrypt = Callable[..., Awaitable[bytes]]


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[Scene]:
    """Run the services."""
    async with keyscene.running() as made:
        yield made


@pytest.fixture
def encrypt(sops_program: Path, tmp_path: Path) -> Encrypt:
    """Return a function that encrypts the plain manifest by a creation rule."""

    async def run(rule: Mapping[str, Any], **environment: str) -> bytes:
        config = tmp_path / "sops.yaml"
        config.write_text(yaml.safe_dump({"creation_rules": [dict(rule)]}))
        process = await asyncio.create_subprocess_exec(
            *(sops_program, "--config", config, "encrypt", PLAIN),
            env={"HOME": str(tmp_path), "PATH": os.defpath, **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, complaint = await process.communicate()
        assert process.returncode == 0, complaint.decode()
        return out

    return run


def led_to(scene: Scene, directory: Path) -> dict[str, str]:
    """Return the variables that lead a program to the clouds' stand-ins."""
    authority = directory / "ca.pem"
    authority.write_bytes(scene.clouds.trust.ca or b"")
    return {"HTTPS_PROXY": scene.clouds.proxy.address, "SSL_CERT_FILE": str(authority)}


def plain() -> object:
    return yaml.safe_load(PLAIN.read_bytes())


async def test_what_sops_encrypts_at_a_vault_is_decrypted_there(
    scene: Scene, encrypt: Encrypt
) -> None:
    rule = {"hc_vault_transit_uri": f"{scene.vault.address}/v1/transit/keys/sops"}

    document = await encrypt(rule, VAULT_TOKEN=TOKEN)
    clear = await scene.read(document, scene.vault_secret())

    assert yaml.safe_load(clear) == plain()
    assert [path for path, _ in scene.vault.requests] == [
        "/v1/transit/encrypt/sops",
        "/v1/transit/decrypt/sops",
    ]


@pytest.mark.parametrize("context", [{}, {"app": "db", "env": "prod"}])
async def test_what_sops_encrypts_at_aws_is_decrypted_there(
    scene: Scene, encrypt: Encrypt, context: dict[str, str]
) -> None:
    user = scene.aws.user()
    rule = {"key_groups": [{"kms": [{"arn": kmsaws.ARN, "context": context}]}]}
    async with kms(scene) as address:
        document = await encrypt(
            rule,
            AWS_ENDPOINT_URL_KMS=address,
            AWS_ACCESS_KEY_ID=user["aws_access_key_id"],
            AWS_SECRET_ACCESS_KEY=user["aws_secret_access_key"],
        )

    clear = await scene.read(document, scene.aws_secret)

    assert yaml.safe_load(clear) == plain()
    assert (b"app: db" in document) == bool(context)


@pytest.mark.parametrize("proof", ["secret", "certificate"])
async def test_what_sops_encrypts_at_azure_is_decrypted_there(
    scene: Scene, encrypt: Encrypt, tmp_path: Path, proof: str
) -> None:
    key = f"{kmsazure.VAULT}/keys/sops/{kmsazure.VERSION}"
    names = {"tenantId": kmsazure.TENANT, "clientId": kmsazure.CLIENT}
    shown = {"AZURE_CLIENT_SECRET": scene.azure.secret}
    given = {**names, "clientSecret": scene.azure.secret}
    if proof == "certificate":
        certificate = tmp_path / "client.pem"
        certificate.write_text(scene.azure.certificate())
        shown = {"AZURE_CLIENT_CERTIFICATE_PATH": str(certificate)}
        given = {**names, "clientCertificate": certificate.read_text()}

    document = await encrypt(
        {"azure_keyvault": key},
        **led_to(scene, tmp_path),
        **shown,
        AZURE_TENANT_ID=kmsazure.TENANT,
        AZURE_CLIENT_ID=kmsazure.CLIENT,
    )
    clear = await scene.read(document, {"sops.azure-kv": json.dumps(given).encode()})

    assert yaml.safe_load(clear) == plain()


async def test_what_sops_encrypts_at_google_is_decrypted_there(
    scene: Scene, encrypt: Encrypt, tmp_path: Path
) -> None:
    account = scene.gcp.account(token_uri="https://oauth2.googleapis.com/token")

    document = await encrypt(
        {"gcp_kms": kmsgcp.KEY},
        **led_to(scene, tmp_path),
        GOOGLE_CREDENTIALS=json.dumps(account),
        SOPS_GCP_KMS_CLIENT_TYPE="rest",
    )
    clear = await scene.read(document, scene.gcp_secret)

    assert yaml.safe_load(clear) == plain()


async def test_groups_that_sops_makes_are_opened_together(scene: Scene, encrypt: Encrypt) -> None:
    uri = {"address": scene.vault.address, "engine": "transit", "key": "sops"}
    public = str(scene.sops.identity.to_public())
    rule = {
        "shamir_threshold": 2,
        "key_groups": [
            {"age": [public]},
            {"hc_vault": [f"{uri['address']}/v1/{uri['engine']}/keys/{uri['key']}"]},
        ],
    }

    document = await encrypt(rule, VAULT_TOKEN=TOKEN)
    clear = await scene.read(document, {**scene.vault_secret(), **scene.sops.secret})

    assert yaml.safe_load(clear) == plain()


@asynccontextmanager
async def kms(scene: Scene) -> AsyncIterator[str]:
    """Serve KMS under an address of its own."""

    async def answer(request: web.BaseRequest) -> web.Response:
        return await scene.aws.answer(request, await request.read())

    async with serving(answer) as port:
        yield f"http://127.0.0.1:{port}"
