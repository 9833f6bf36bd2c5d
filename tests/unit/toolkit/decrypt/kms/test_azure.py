"""Azure Key Vault: which hosts get a token, as whom, and what refusals mean."""

import json

import pytest

from tests.fakes import kmsazure
from tests.fakes.keyscene import ISSUER, WORD, Scene
from toolkit.decrypt.kms import azure

CLEAR = f"word: {WORD}\n".encode()
LOGIN = "login.microsoftonline.com:443"


async def test_an_application_shows_its_secret_to_entra_and_its_token_to_the_vault(
    scene: Scene,
) -> None:
    document = scene.document(azure_kv=[scene.azure_kv()])

    assert await scene.read(document, scene.azure_secret) == CLEAR
    assert scene.clouds.dialled == [LOGIN, "fleet.vault.azure.net:443"]
    assert scene.azure.secret not in str(scene.clouds.requests[-1])


async def test_the_names_of_the_command_line_are_understood(scene: Scene) -> None:
    names = {"appId": kmsazure.CLIENT, "tenant": kmsazure.TENANT, "password": scene.azure.secret}
    given = json.dumps(names).encode("utf-16")

    document = scene.document(azure_kv=[scene.azure_kv()])

    assert await scene.read(document, {"sops.azure-kv": given}) == CLEAR


@pytest.mark.parametrize("chain", [False, True])
async def test_an_application_may_sign_with_its_certificate(scene: Scene, *, chain: bool) -> None:
    given = {
        "tenantId": kmsazure.TENANT,
        "clientId": kmsazure.CLIENT,
        "clientCertificate": scene.azure.certificate(),
        "clientCertificateSendChain": chain,
    }
    document = scene.document(azure_kv=[scene.azure_kv()])

    assert await scene.read(document, {"sops.azure-kv": json.dumps(given).encode()}) == CLEAR
    assert scene.azure.chains == [chain]
    assert b"PRIVATE" not in scene.clouds.requests[0].body


@pytest.mark.parametrize("part", ["CERTIFICATE", "PRIVATE KEY"])
async def test_a_certificate_that_is_not_whole_is_told(scene: Scene, part: str) -> None:
    names = {"tenantId": kmsazure.TENANT, "clientId": kmsazure.CLIENT}
    certificate = scene.azure.certificate().replace(part, "NOTHING")
    given = json.dumps({**names, "clientCertificate": certificate}).encode()

    error = await scene.refused(
        scene.document(azure_kv=[scene.azure_kv()]), {"sops.azure-kv": given}
    )

    assert "'sops.azure-kv' of the Secret" in str(error)
    assert scene.clouds.dialled == []


async def test_an_account_signs_in_as_the_application_in_its_annotations(scene: Scene) -> None:
    scene.clouds.azure.applications["t1", "c1"] = (ISSUER.url, "system:serviceaccount:team:app")
    scene.azure.allowed = {"c1"}
    names = {"client-id": "c1", "tenant-id": "t1"}
    account = ISSUER.identity(
        annotations={f"azure.workload.identity/{name}": value for name, value in names.items()}
    )

    assert await scene.read(scene.document(azure_kv=[scene.azure_kv()]), account=account) == CLEAR


async def test_the_managed_identity_of_the_node_is_nobodys_to_use(scene: Scene) -> None:
    scene.clouds.azure.node_client, scene.azure.allowed = "node", {"node"}
    document = scene.document(azure_kv=[scene.azure_kv()])

    await scene.refused(document)
    asked = len(scene.clouds.requests)
    clear = await scene.read(document, own=True)

    assert asked == 0
    assert clear == CLEAR


async def test_one_token_serves_many_documents(scene: Scene) -> None:
    secret = scene.azure_secret

    await scene.read(scene.document(azure_kv=[scene.azure_kv()]), secret)
    await scene.read(scene.document(azure_kv=[scene.azure_kv()]), secret)

    assert scene.clouds.asked("login.microsoftonline.com") == 1


async def test_the_newest_version_is_asked_where_none_is_named(scene: Scene) -> None:
    document = scene.document(azure_kv=[scene.azure_kv(version="")])

    assert await scene.read(document, scene.azure_secret) == CLEAR


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://fleet.vault.azure.net",
        "https://vault.azure.net",
        "https://.vault.azure.net",
        "https://fleet.vault.azure.net.attacker.example",
        "https://attacker.example/fleet.vault.azure.net",
        "https://attacker.example#.vault.azure.net",
        "https://fleet.vault.azure.net@attacker.example",
        "https://user@fleet.vault.azure.net",
        "https://a.b.vault.azure.net",
        "https://fleet.vault.azure.net:8443",
        "https://fleetvault.azure.net",
        "https://169.254.169.254",
    ],
)
async def test_a_vault_that_is_not_microsofts_gets_no_token(scene: Scene, url: str) -> None:
    document = scene.document(azure_kv=[scene.azure_kv(vault_url=url)])

    error = await scene.refused(document, scene.azure_secret)

    assert "is not in a key vault of Azure" in str(error)
    assert scene.clouds.dialled == []


@pytest.mark.parametrize(
    "changes",
    [{"name": "../secrets/x"}, {"name": ""}, {"version": "x/../y"}, {"version": "x?y"}],
)
async def test_a_name_that_is_none_is_asked_of_nobody(
    scene: Scene, changes: dict[str, str]
) -> None:
    document = scene.document(azure_kv=[scene.azure_kv(**changes)])

    await scene.refused(document, scene.azure_secret)

    assert scene.clouds.dialled == []


@pytest.mark.parametrize(("domain", "authority"), azure.VAULTS)
def test_tokens_come_from_the_same_cloud_as_the_vault(domain: str, authority: str) -> None:
    country = {"net": "com", "cn": "cn"}.get(domain.rpartition(".")[2], "us")

    assert authority.startswith("https://login.")
    assert authority.endswith(country if "usgov" not in domain else "us")


async def test_a_missing_right_is_told_with_what_to_allow(scene: Scene) -> None:
    scene.azure.allowed.clear()

    error = await scene.refused(scene.document(azure_kv=[scene.azure_kv()]), scene.azure_secret)

    assert str(error) == (
        "Azure Key Vault key 'https://fleet.vault.azure.net/sops' refuses entry 'sops.azure-kv' of"
        " the Secret (HTTP 403 Forbidden): allow it the operation 'decrypt' on the key"
    )


async def test_a_wrong_secret_is_told(scene: Scene) -> None:
    given = {**scene.azure.application(), "clientSecret": "wrong"}

    error = await scene.refused(
        scene.document(azure_kv=[scene.azure_kv()]), {"sops.azure-kv": json.dumps(given).encode()}
    )

    assert "see what 'sops.azure-kv' holds" in str(error)
    assert "invalid_client" in str(error)


async def test_a_key_that_is_not_there_and_a_foreign_data_key_are_told_apart(
    scene: Scene,
) -> None:
    absent = scene.document(azure_kv=[scene.azure_kv(name="other")])
    foreign = scene.document(azure_kv=[scene.azure_kv(enc="AAAA")])

    assert "does not exist" in str(await scene.refused(absent, scene.azure_secret))
    assert "cannot decrypt the data key" in str(await scene.refused(foreign, scene.azure_secret))


async def test_an_answer_about_another_key_does_not_count(scene: Scene) -> None:
    scene.azure.lies = f"{kmsazure.VAULT}/keys/other/{kmsazure.VERSION}"

    error = await scene.refused(scene.document(azure_kv=[scene.azure_kv()]), scene.azure_secret)

    assert "another key responded" in str(error)
