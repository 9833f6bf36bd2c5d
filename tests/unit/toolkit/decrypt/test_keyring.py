"""Keys from a Secret, and what is said when none of them fits."""

import time

import pyrage
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import sops
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keyring import MAX_RECIPIENTS, KeyRing
from toolkit.decrypt.keys import Recipient
from toolkit.skipped import Skipped

KEY = bytes(range(32))


def for_age(author: Reference, plain: bytes = KEY) -> Recipient:
    entry = author.wrap(plain)
    return Recipient(kind="age", name=entry["recipient"], encrypted=entry["enc"])


def test_an_age_identity_opens_its_data_key() -> None:
    author = Reference()

    assert KeyRing.from_secret(author.secret).data_key([[for_age(author)]], 0) == KEY


def test_several_identities_may_be_in_one_file() -> None:
    first, second = Reference(), Reference()
    text = f"# one\n{first.identity}\n\n# two\r\n{second.identity}\r\n".encode()

    ring = KeyRing.from_secret({"all.agekey": text})

    assert ring.data_key([[for_age(second)]], 0) == KEY


def test_an_ssh_key_opens_its_data_key() -> None:
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    recipient = pyrage.ssh.Recipient.from_str(public.decode())
    encrypted = pyrage.encrypt(KEY, [recipient], armored=True).decode()

    ring = KeyRing.from_secret({"deploy.agekey": pem})

    item = Recipient(kind="age", name="ssh", encrypted=encrypted)
    assert ring.data_key([[item]], 0) == KEY


def test_other_entries_of_the_secret_are_left_alone() -> None:
    ring = KeyRing.from_secret({"sops.vault-token": b"x", "identity.asc.txt": b"y"})

    assert not ring
    assert repr(ring) == "KeyRing(age=0, pgp=0)"


@pytest.mark.parametrize(
    ("name", "value", "finding"),
    [
        ("a.agekey", b"", "there is no age identity in it"),
        ("a.agekey", b"# only a comment\n", "there is no age identity in it"),
        ("a.agekey", b"AGE-SECRET-KEY-1NONSENSE\n", "line 1 is not an age identity"),
        (
            "a.agekey",
            b"-----BEGIN OPENSSH PRIVATE KEY-----\nx\n",
            "the SSH key cannot be used: wrong type, or a passphrase",
        ),
        ("a.asc", b"", "it is empty"),
    ],
)
def test_a_useless_key_is_skipped_and_named(name: str, value: bytes, finding: str) -> None:
    author = Reference()

    ring = KeyRing.from_secret({name: value, **author.secret})

    assert ring.skipped == (Skipped(entry=name, finding=finding),)
    assert ring.data_key([[for_age(author)]], 0) == KEY


def test_a_useless_line_hides_no_other() -> None:
    author = Reference()
    lines = f"AGE-SECRET-KEY-1NONSENSE\n{author.identity}\nnonsense\n".encode()

    ring = KeyRing.from_secret({"all.agekey": lines})

    assert ring.data_key([[for_age(author)]], 0) == KEY
    assert [skipped.finding for skipped in ring.skipped] == [
        "line 1 is not an age identity",
        "line 3 is not an age identity",
    ]


def test_where_no_key_fits_the_skipped_ones_are_named() -> None:
    ring = KeyRing.from_secret({"a.agekey": b"AGE-SECRET-KEY-1NONSENSE\n"})

    with pytest.raises(DecryptionError, match=r"no key opens .*; skipped keys: 'a.agekey': line 1"):
        ring.data_key([[for_age(Reference())]], 0)


@pytest.mark.parametrize(
    ("field", "entry", "name"),
    [
        (
            "kms",
            {"arn": "arn:aws:kms:eu-west-1:1:key/x"},
            "AWS KMS (arn:aws:kms:eu-west-1:1:key/x)",
        ),
        ("gcp_kms", {"resource_id": "projects/p"}, "Google Cloud KMS (projects/p)"),
        ("azure_kv", {"vault_url": "https://v", "name": "n"}, "Azure Key Vault (https://v/n)"),
        (
            "hc_vault",
            {"vault_address": "https://v", "engine_path": "t", "key_name": "k"},
            "HashiCorp Vault (https://v/t/k)",
        ),
        ("hckms", {"key_id": "r:1"}, "Huawei Cloud KMS (r:1)"),
    ],
)
def test_a_key_service_is_named(field: str, entry: dict[str, str], name: str) -> None:
    author = Reference()
    document = author.yaml({"a": "b"}, age=[], **{field: [{**entry, "enc": "AQID"}]})

    with pytest.raises(DecryptionError) as error:
        sops.decrypt(document, sops.Format.YAML, KeyRing.from_secret(author.secret))

    assert str(error.value) == (
        f"the data key is encrypted for {name}, which is not available; "
        "add an age or OpenPGP recipient"
    )


def test_a_key_service_beside_a_key_that_fits_does_not_matter() -> None:
    author = Reference()
    document = author.yaml({"a": "b"}, kms=[{"arn": "arn:x", "enc": "AQID"}])

    plain = sops.decrypt(document, sops.Format.YAML, KeyRing.from_secret(author.secret))

    assert plain == b"a: b\n"


def test_an_oversized_data_key_is_not_even_tried() -> None:
    author = Reference()
    ring = KeyRing.from_secret(author.secret)

    with pytest.raises(DecryptionError, match="no key opens"):
        ring.data_key([[for_age(author, plain=bytes(64 << 10))]], 0)


def test_a_data_key_of_the_wrong_size_is_refused() -> None:
    author = Reference()

    with pytest.raises(DecryptionError):
        KeyRing.from_secret(author.secret).data_key([[for_age(author, plain=bytes(16))]], 0)


def test_the_number_of_recipients_is_limited() -> None:
    author = Reference()
    group = [for_age(author)] * (MAX_RECIPIENTS + 1)

    with pytest.raises(DecryptionError, match="more than 200 recipients"):
        KeyRing.from_secret(author.secret).data_key([group], 0)


def test_age_message_for_many_recipients_is_not_opened() -> None:
    own = pyrage.x25519.Identity.generate()
    ring = KeyRing.from_secret({"own.agekey": str(own).encode()})

    for number, opened in ((4, True), (5, False)):
        encrypted = pyrage.encrypt(KEY, [own.to_public()] * number, armored=True).decode()
        item = Recipient(kind="age", name="own", encrypted=encrypted)
        if opened:
            assert ring.data_key([[item]], 0) == KEY
        else:
            with pytest.raises(DecryptionError):
                ring.data_key([[item]], 0)


def test_file_with_very_many_identities_is_used_in_part() -> None:
    lines = "\n".join(str(pyrage.x25519.Identity.generate()) for _ in range(102))

    ring = KeyRing.from_secret({"all.agekey": lines.encode()})

    assert [one.finding for one in ring.skipped] == [
        "it has more than 100 identities: others are not used"
    ]


def test_keys_and_recipients_together_have_a_limit_of_time() -> None:
    class Slow:
        def open(self, encrypted: str) -> bytes | None:  # noqa: ARG002 - of the protocol
            until = time.thread_time() + 1.1
            while time.thread_time() < until:
                pass
            return None

    ring = KeyRing(openers={"age": [Slow()] * 1000})

    with pytest.raises(DecryptionError, match="remove keys that the document does not need"):
        ring.data_key([[Recipient(kind="age", name="a", encrypted="x")]], 0)
