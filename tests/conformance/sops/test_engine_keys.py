"""What the real sops encrypts for gpg's keys and for post-quantum age recipients is opened here."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from tests.fakes.opening import Opening
from tests.testdata.secretkeys.generate import KeyPair
from toolkit.decrypt import sops
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keyring import KeyRing

PLAIN = Path(__file__).parent / "plain" / "secret.yaml"

Encrypt = Callable[..., bytes]


@pytest.fixture
def encrypt(sops_program: Path, tmp_path: Path) -> Encrypt:
    """Return a function that encrypts the plain manifest for recipients."""

    def run(*options: str, **environment: str) -> bytes:
        return subprocess.run(
            [sops_program, "encrypt", *options, PLAIN],
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], **environment},
            capture_output=True,
            check=True,
        ).stdout

    return run


@pytest.fixture
def identity(age_keygen_program: Path) -> bytes:
    """Make a post-quantum identity."""
    return subprocess.run([age_keygen_program, "-pq"], capture_output=True, check=True).stdout


@pytest.mark.parametrize("name", ["recipe", "curve25519", "brainpool"])
def test_a_document_for_a_key_of_gpg_is_opened(
    opener: Opening, encrypt: Encrypt, pairs: Mapping[str, KeyPair], name: str
) -> None:
    pair = pairs[name]
    document = encrypt("--pgp", pair.fingerprint, GNUPGHOME=str(pair.home))

    ring = KeyRing.from_secret({"a.asc": pair.secret})
    clear = opener.decrypt(document, sops.Format.YAML, ring)

    assert yaml.safe_load(clear) == yaml.safe_load(PLAIN.read_bytes())


def test_a_document_for_a_post_quantum_recipient_is_opened(
    opener: Opening, encrypt: Encrypt, identity: bytes
) -> None:
    document = encrypt("--age", recipient(identity))

    ring = KeyRing.from_secret({"a.agekey": identity})
    clear = opener.decrypt(document, sops.Format.YAML, ring)

    assert yaml.safe_load(clear) == yaml.safe_load(PLAIN.read_bytes())


def test_a_post_quantum_recipient_without_its_identity_is_named(
    opener: Opening, encrypt: Encrypt, identity: bytes
) -> None:
    document = encrypt("--age", recipient(identity))

    with pytest.raises(DecryptionError, match="encrypted for age age1pq1"):
        opener.decrypt(document, sops.Format.YAML, KeyRing.from_secret({}))


def recipient(identity: bytes) -> str:
    return identity.decode().splitlines()[1].removeprefix("# public key: ")
