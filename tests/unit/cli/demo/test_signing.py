"""The demo's author signs as ssh-keygen does, by the judgement of what verifies for real."""

import pytest

from cli.demo.signing import Author
from toolkit.remote.git.objects import Signed
from toolkit.verify import ssh
from toolkit.verify.signature import VerificationError

PAYLOAD = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nwhat was signed\n"


def test_signature_is_the_authors() -> None:
    ada = Author(name="ada@example.com")
    signed = Signed(payload=PAYLOAD, signature=ada.sign(PAYLOAD).encode())

    signer = ssh.verify(signed, {"ada.sshpub": ada.public.encode()})

    assert (signer.identity, signer.fingerprint) == ("ada@example.com", ada.fingerprint)


def test_signature_is_of_these_bytes_and_of_nobody_else() -> None:
    ada, eve = Author(name="ada@example.com"), Author(name="eve@example.com")
    moved = Signed(payload=PAYLOAD + b"\n", signature=ada.sign(PAYLOAD).encode())
    forged = Signed(payload=PAYLOAD, signature=eve.sign(PAYLOAD).encode())

    for signed in (moved, forged):
        with pytest.raises(VerificationError):
            ssh.verify(signed, {"ada.sshpub": ada.public.encode()})


def test_key_is_not_shown() -> None:
    assert "Ed25519" not in repr(Author(name="ada@example.com"))
