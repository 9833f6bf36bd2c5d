"""One encrypted value: its parts are checked before anything is decrypted."""

import base64

import pytest

from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt.cipher import Cipher
from toolkit.decrypt.errors import DecryptionError

AUTHOR = Reference()


def value(*, data: bytes = b"x", nonce: bytes = bytes(32), tag: bytes = bytes(16)) -> str:
    parts = (base64.b64encode(part).decode() for part in (data, nonce, tag))
    return "ENC[AES256_GCM,data:{},iv:{},tag:{},type:str]".format(*parts)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("plain", "is not encrypted"),
        (value().replace("data:", "data:="), "is damaged: no base64"),
        (value(tag=bytes(15)), "is damaged: nonce or tag has the wrong length"),
        (value(tag=bytes(17)), "is damaged: nonce or tag has the wrong length"),
        (value(nonce=bytes(7)), "is damaged: nonce or tag has the wrong length"),
        (value(nonce=bytes(1024)), "is damaged: nonce or tag has the wrong length"),
        (value(), "was changed, or moved here"),
    ],
)
def test_a_damaged_value_is_refused_by_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(DecryptionError, match=f"^the value {complaint}"):
        Cipher(AUTHOR.key).open(text, bound_to="a:", place="the value")


def test_a_value_opens_at_its_own_place() -> None:
    sealed = AUTHOR.seal("word", "a:")

    assert Cipher(AUTHOR.key).open(sealed, bound_to="a:", place="the value") == "word"
