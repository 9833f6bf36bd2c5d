"""Encrypt a Secret manifest: the SOPS documents that ``penstock seal`` writes.

The output is that of sops with ``encrypted_regex: ^(data|stringData)$``: metadata stay readable,
values do not, and the MAC covers both. Recipients are age keys only (SSH keys included); use sops
for others. Comments of the manifest are dropped, because they would stay readable too.
"""

import datetime as dt
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyrage

from toolkit.decrypt import sops
from toolkit.decrypt.cipher import Cipher, looks_encrypted
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.formats import yamlfile
from toolkit.decrypt.keyring import DATA_KEY
from toolkit.decrypt.keys import Recipient
from toolkit.decrypt.metadata import KEY
from toolkit.decrypt.tree import Branch, Comment, Path, Scalar, Value, mac_bytes, mapped

PARTS: Final = ("data", "stringData")
"""Fields of a Secret that are encrypted."""

VERSION: Final = "3.13.3"
"""The version of sops with this format; readers use it to parse older documents."""


class SealError(DecryptionError):
    """The manifest cannot be encrypted, or not for these recipients."""


def seal(manifest: bytes, recipients: Sequence[str], *, now: dt.datetime) -> bytes:
    """Return the manifest of one Secret, encrypted for every recipient, as YAML.

    Recipients are ``age1…``, ``ssh-ed25519 …`` or ``ssh-rsa …``. ``now`` is the time of the change.

    Raises:
        SealError: the input is not one unencrypted Secret, a recipient is invalid, or there is
            none.
    """
    secret = _secret(manifest)
    key = os.urandom(DATA_KEY)
    keys = [_wrap(key, recipient) for recipient in recipients]
    if not keys:
        raise SealError("name at least one recipient")
    moment = f"{now.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
    walk = _Walk(Cipher(key))
    tree = walk.branch(secret, ())
    block: list[tuple[str | Comment, Value]] = [
        ("age", [*keys]),
        ("lastmodified", moment),
        ("mac", walk.mac(moment)),
        ("encrypted_regex", f"^({'|'.join(PARTS)})$"),
        ("version", VERSION),
    ]
    sealed = yamlfile.dump([Branch([*tree.items, (KEY, Branch(block))])])
    # Decrypt it as every reader does, before the user deletes the plaintext.
    sops.open_document(sealed, sops.Format.YAML, _Known(key))
    return sealed


@dataclass(frozen=True, slots=True)
class _Known:
    """The data key of a document that was just written."""

    key: bytes

    def data_key(self, _: Sequence[Sequence[Recipient]], __: int) -> bytes:
        return self.key


class _Walk:
    """Encrypts the values below ``PARTS``, hashing all of them in file order."""

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher
        self._hash = hashlib.sha512()

    def branch(self, branch: Branch, path: tuple[str, ...]) -> Branch:
        return Branch([(key, self._value(child, (*path, key))) for key, child in branch.entries()])

    def mac(self, moment: str) -> str:
        return self._cipher.seal(self._hash.hexdigest().upper(), bound_to=moment)

    def _value(self, value: Value, path: Path) -> Value:
        return mapped(value, path, branch=self.branch, leaf=self._leaf)

    def _leaf(self, value: Scalar, path: tuple[str, ...]) -> Scalar:
        self._hash.update(mac_bytes(value))
        if not any(key in PARTS for key in path):
            return value
        return self._cipher.seal(value, bound_to=":".join(path) + ":")


def _secret(manifest: bytes) -> Branch:
    documents = [document for document in yamlfile.load(manifest) if document.items]
    if len(documents) != 1:
        raise SealError("the file must hold one manifest; put each Secret into a file of its own")
    (secret,) = documents
    if (secret.get("apiVersion"), secret.get("kind")) != ("v1", "Secret"):
        raise SealError("it is not the manifest of a Secret (apiVersion: v1, kind: Secret)")
    values = _values(secret)
    if secret.get(KEY) is not None or any(
        isinstance(value, str) and looks_encrypted(value) for _, _, value in values
    ):
        raise SealError("it is encrypted already; `sops edit` and `sops updatekeys` change it")
    if odd := next((f"{part}.{key}" for part, key, v in values if not isinstance(v, str)), None):
        raise SealError(f"{odd} is not text; quote it")
    return secret


def _values(secret: Branch) -> list[tuple[str, str, Value]]:
    found: list[tuple[str, str, Value]] = []
    for part in PARTS:
        values = secret.get(part)
        if values is None:
            continue
        if not isinstance(values, Branch):
            raise SealError(f"{part} is not a mapping")
        found += [(part, key, value) for key, value in values.entries()]
    return found


def _wrap(key: bytes, recipient: str) -> Branch:
    text = recipient.strip()
    kind = pyrage.ssh.Recipient if text.startswith("ssh-") else pyrage.x25519.Recipient
    try:
        encrypted = pyrage.encrypt(key, [kind.from_str(text)], armored=True)
    except (pyrage.RecipientError, pyrage.EncryptError, ValueError):
        shown = f"'{text[:100]}'" if text.startswith(("age1", "ssh-")) else "one of the recipients"
        raise SealError(
            f"{shown} is not an age recipient (age1…, ssh-ed25519 …, ssh-rsa …)"
        ) from None
    return Branch([("recipient", text), ("enc", encrypted.decode())])
