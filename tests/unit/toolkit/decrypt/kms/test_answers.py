"""Data keys and answers that are malformed: who is asked, and what is made of the answer."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from tests.fakes import kmsaws, kmsazure
from tests.fakes.keyscene import Scene
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.kms import asking

QUESTION = asking.Question(key="key 'a'", who="entry 'b'", remedy="allow it")
ROLE = "arn:aws:iam::111122223333:role/sops"
TITLES = {"kms": "AWS KMS", "gcp_kms": "Google Cloud KMS", "azure_kv": "Azure Key Vault"}


def said(text: str) -> Callable[[web.BaseRequest, bytes], Awaitable[web.Response]]:
    """Return a service that always says the same."""

    async def answer(_: web.BaseRequest, __: bytes) -> web.Response:
        return web.Response(text=text, content_type="application/json")

    return answer


def secret_of(scene: Scene) -> dict[str, bytes]:
    return {**scene.aws_secret, **scene.gcp_secret, **scene.azure_secret, **scene.vault_secret()}


@pytest.mark.parametrize("kind", TITLES)
async def test_a_data_key_that_is_no_base64_is_asked_of_nobody(scene: Scene, kind: str) -> None:
    recipient = getattr(scene, kind)(enc="no base64!")

    error = await scene.refused(scene.document(**{kind: [recipient]}), secret_of(scene))

    assert f"the data key for {TITLES[kind]} key" in str(error)
    assert str(error).endswith("is not base64")
    assert scene.clouds.dialled == []


@pytest.mark.parametrize(
    ("kind", "service", "text"),
    [
        ("kms", "kms.", f'{{"KeyId": "{kmsaws.ARN}", "Plaintext": "!"}}'),
        ("gcp_kms", "cloudkms.googleapis.com", '{"plaintext": "!"}'),
        (
            "azure_kv",
            ".vault.azure.net",
            f'{{"kid": "{kmsazure.VAULT}/keys/sops/{kmsazure.VERSION}", "value": "!"}}',
        ),
    ],
)
async def test_a_data_key_that_comes_back_unreadable_opens_nothing(
    scene: Scene, kind: str, service: str, text: str
) -> None:
    scene.clouds.more[service] = said(text)
    document = scene.document(**{kind: [getattr(scene, kind)()]})

    error = await scene.refused(document, secret_of(scene))

    assert str(error).startswith(TITLES[kind])
    assert str(error).endswith("sent an unreadable response")


async def test_a_data_key_that_a_vault_cannot_spell_opens_nothing(scene: Scene) -> None:
    scene.vault.plaintext = "!"
    document = scene.document(hc_vault=[scene.hc_vault()])

    error = await scene.refused(document, scene.vault_secret())

    assert str(error).startswith("HashiCorp Vault key")
    assert str(error).endswith("sent an unreadable response")


async def test_a_role_without_credentials_asks_for_no_data_key(scene: Scene) -> None:
    scene.clouds.more["sts.eu-west-1"] = said("<AccessKeyId>AKIA</AccessKeyId>")
    document = scene.document(kms=[scene.kms(role=ROLE)])

    error = await scene.refused(document, scene.aws_secret)

    assert "the answer of STS lacks credentials" in str(error)
    assert scene.aws.asked == 0


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"a": ' + b"[" * 5_000])
def test_an_answer_must_be_an_object(body: bytes) -> None:
    with pytest.raises(DecryptionError, match="sent a response that is not a JSON object"):
        asking.decoded(body, QUESTION)


@pytest.mark.parametrize("answer", [{}, {"data": None}, {"data": {"text": 7}}, {"data": "text"}])
def test_an_answer_must_have_its_fields(answer: dict[str, Any]) -> None:
    with pytest.raises(DecryptionError, match=r"answers without 'data\.text'"):
        asking.text(answer, "data", "text", question=QUESTION)
