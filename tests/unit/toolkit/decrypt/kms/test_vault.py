"""Vault's transit engine: to whom the token is shown, and what refusals mean."""

import pytest

from tests.fakes.keyscene import ISSUER, WORD, Scene
from tests.fakes.kmsvault import TOKEN, FakeVault
from toolkit.decrypt.errors import UnreachableError

CLEAR = f"word: {WORD}\n".encode()


async def test_the_engine_is_asked_with_the_token(scene: Scene) -> None:
    document = scene.document(hc_vault=[scene.hc_vault()])

    assert await scene.read(document, scene.vault_secret()) == CLEAR
    assert scene.vault.requests == [("/v1/transit/decrypt/sops", TOKEN)]


async def test_a_vault_with_an_authority_of_its_own_is_trusted_by_the_secret_alone(
    scene: Scene,
) -> None:
    async with FakeVault().running(tls=True) as vault:
        document = scene.document(hc_vault=[vault.recipient(scene.sops.key)])
        trusting = {"sops.vault-token": TOKEN.encode(), "sops.vault-ca": vault.ca}

        strange = await scene.refused(document, {"sops.vault-token": TOKEN.encode()})
        clear = await scene.read(document, trusting)

    assert "TLS connection to" in str(strange)
    assert not isinstance(strange, UnreachableError)  # it does not pass by itself
    assert len(vault.requests) == 1
    assert clear == CLEAR


async def test_the_token_is_not_sent_in_clear_unless_the_secret_lists_the_address(
    scene: Scene,
) -> None:
    document = scene.document(hc_vault=[scene.hc_vault()])

    error = await scene.refused(document, scene.vault_secret(address=b""))

    assert "is not contacted without TLS: use https" in str(error)
    assert scene.vault.requests == []


@pytest.mark.parametrize("listed", [False, True])
async def test_the_token_goes_to_listed_servers_only(scene: Scene, *, listed: bool) -> None:
    document = scene.document(hc_vault=[scene.hc_vault()])
    secret = scene.vault_secret(address=b"https://vault.example:8200\nhttps://other.example\n")

    error = await scene.refused(document, secret, listed=listed)

    assert "the token is not for that server: list the address under 'sops.vault-address'" in str(
        error
    )
    assert scene.vault.requests == []


async def test_without_a_kustomization_the_list_is_required_even_for_https(scene: Scene) -> None:
    async with FakeVault().running(tls=True) as vault:
        document = scene.document(hc_vault=[vault.recipient(scene.sops.key)])
        secret = {"sops.vault-token": TOKEN.encode(), "sops.vault-ca": vault.ca}

        error = await scene.refused(document, secret, listed=True)
        named = {**secret, "sops.vault-address": f"{vault.address}/".encode()}
        clear = await scene.read(document, named, listed=True)

    assert "the token is not for that server" in str(error)
    assert clear == CLEAR
    assert len(vault.requests) == 1


async def test_a_redirect_does_not_take_the_token_along(scene: Scene) -> None:
    async with FakeVault().running() as elsewhere:
        document = scene.document(hc_vault=[scene.hc_vault()])
        scene.vault.status, scene.vault.location = 307, f"{elsewhere.address}/v1/x"

        error = await scene.refused(document, scene.vault_secret())

    assert "answers with HTTP 307" in str(error)
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    "changes",
    [
        {"engine_path": "transit/../sys/policy"},
        {"engine_path": ".."},
        {"engine_path": ""},
        {"engine_path": "transit?x="},
        {"engine_path": "a/b/c/d/e/f/g/h/i"},
        {"key_name": "../../sys/seal"},
        {"key_name": "a/b"},
        {"key_name": ".."},
        {"key_name": "a%2fb"},
        {"vault_address": "ftp://vault.example"},
        {"vault_address": "http://user:secret@127.0.0.1"},
        {"vault_address": "https://vault.example/prefix"},
        {"vault_address": ""},
    ],
)
async def test_what_is_no_transit_key_is_asked_of_nobody(
    scene: Scene, changes: dict[str, str]
) -> None:
    document = scene.document(hc_vault=[scene.hc_vault(**changes)])

    error = await scene.refused(document, scene.vault_secret())

    assert "is not the key of a transit engine" in str(error)
    assert scene.vault.requests == []


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254", "http://[fd00:ec2::254]", "http://100.100.100.200"]
)
async def test_a_metadata_service_is_not_asked_even_if_it_is_listed(
    scene: Scene, address: str
) -> None:
    document = scene.document(hc_vault=[scene.hc_vault(vault_address=address)])

    error = await scene.refused(document, scene.vault_secret(address=address.encode()))

    assert "metadata service" in str(error)


async def test_an_account_and_this_process_have_no_token(scene: Scene) -> None:
    document = scene.document(hc_vault=[scene.hc_vault()])
    environment = {"VAULT_TOKEN": TOKEN, "VAULT_ADDR": scene.vault.address}

    error = await scene.refused(
        document, account=ISSUER.identity(), own=True, cloud=scene.process(**environment)
    )

    assert "add the entry 'sops.vault-token' to the Secret" in str(error)
    assert scene.vault.requests == []


async def test_refusals_are_told_apart(scene: Scene) -> None:
    secret = scene.vault_secret()
    good = scene.document(hc_vault=[scene.hc_vault()])
    absent = scene.document(hc_vault=[scene.hc_vault(key_name="other")])
    foreign = scene.document(hc_vault=[scene.hc_vault(enc="vault:v1:AAAA")])

    missing = str(await scene.refused(absent, secret))
    altered = str(await scene.refused(foreign, secret))
    scene.vault.status = 503
    sealed = await scene.refused(good, secret)
    scene.vault.status = 0
    scene.vault.allowed.clear()
    refused = str(await scene.refused(good, secret))

    assert "does not exist (HTTP 404)" in missing
    assert "cannot decrypt the data key (HTTP 400)" in altered
    assert isinstance(sealed, UnreachableError)
    assert refused == (
        f"HashiCorp Vault key '{scene.vault.address}/transit/sops' refuses entry"
        " 'sops.vault-token' of the Secret (HTTP 403):"
        " allow its policy 'update' on 'transit/decrypt/sops'"
    )


async def test_a_server_that_is_not_there_passes(scene: Scene) -> None:
    async with FakeVault().running() as gone:
        document = scene.document(hc_vault=[gone.recipient(scene.sops.key)])

    error = await scene.refused(document, scene.vault_secret(address=gone.address.encode()))

    assert isinstance(error, UnreachableError)
