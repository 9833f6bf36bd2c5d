"""A small SOPS encrypter of its own: the other side of every round trip.

It shares no code with the product. Trees are plain Python: dicts in order, lists, scalars.
"""

import base64
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyrage
import yaml
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

LAST_MODIFIED = "2026-01-02T03:04:05Z"


def _unencrypted(path: tuple[str, ...]) -> bool:
    """Tell whether a value stays plain: SOPS applies the default suffix to each key of its path."""
    return any(key.endswith("_unencrypted") for key in path)


@dataclass
class Reference:
    """Encrypts trees for one age identity, or with the metadata that a test wants."""

    identity: pyrage.x25519.Identity = field(default_factory=pyrage.x25519.Identity.generate)
    key: bytes = field(default_factory=lambda: os.urandom(32))

    @property
    def secret(self) -> dict[str, bytes]:
        """The data of the decryption Secret."""
        return {"age.agekey": f"# made by a test\n{self.identity}\n".encode()}

    def wrap(self, key: bytes) -> dict[str, str]:
        """Encrypt a data key, or a share of one, for the identity."""
        recipient = self.identity.to_public()
        armoured = pyrage.encrypt(key, [recipient], armored=True).decode()
        return {"recipient": str(recipient), "enc": armoured}

    def encrypt(
        self,
        documents: Sequence[dict[str, Any]],
        *,
        plain: Callable[[tuple[str, ...]], bool] = _unencrypted,
        mac_only_encrypted: bool = False,
        **metadata: Any,
    ) -> list[dict[str, Any]]:
        """Return the encrypted documents, each with the ``sops`` block."""
        start = hashlib.sha256(b"sops").digest() if mac_only_encrypted else b""
        mac = hashlib.sha512(start)

        def walk(value: Any, path: tuple[str, ...]) -> Any:
            if isinstance(value, dict):
                return {key: walk(child, (*path, key)) for key, child in value.items()}
            if isinstance(value, list):
                return [walk(item, path) for item in value]
            if value is None:
                return None
            encrypted = not plain(path)
            if encrypted or not mac_only_encrypted:
                mac.update(spell(value))
            return self.seal(value, ":".join(path) + ":") if encrypted else value

        trees = [walk(document, ()) for document in documents]
        block = {
            "age": [self.wrap(self.key)],
            "lastmodified": LAST_MODIFIED,
            "mac": self.seal(mac.hexdigest().upper(), LAST_MODIFIED),
            **({"mac_only_encrypted": True} if mac_only_encrypted else {}),
            "version": "3.13.3",
            **metadata,
        }
        return [{**tree, "sops": block} for tree in trees]

    def seal(self, value: Any, bound_to: str, kind: str = "") -> str:
        """Encrypt one value as SOPS writes it."""
        plain = spell(value)
        if not plain:
            return ""
        nonce = os.urandom(32)
        sealed = AESGCM(self.key).encrypt(nonce, plain, bound_to.encode())
        data, iv, tag = (base64.b64encode(x).decode() for x in (sealed[:-16], nonce, sealed[-16:]))
        return f"ENC[AES256_GCM,data:{data},iv:{iv},tag:{tag},type:{kind or name_of(value)}]"

    def yaml(self, *documents: dict[str, Any], **options: Any) -> bytes:
        """Encrypt and write as YAML."""
        return as_yaml(self.encrypt(documents, **options))

    def json(self, document: dict[str, Any], **options: Any) -> bytes:
        """Encrypt and write as JSON."""
        return json.dumps(self.encrypt([document], **options)[0]).encode()

    def binary(self, content: str) -> bytes:
        """Encrypt a file of any kind."""
        return self.json({"data": content})

    def manifest(self, obj: dict[str, Any]) -> bytes:
        """Encrypt the values of an object as the SOPS guide for Flux has it."""
        values = ("data", "stringData", "spec")
        regex = f"^({'|'.join(values)})$"
        return self.yaml(obj, plain=lambda path: path[0] not in values, encrypted_regex=regex)

    def env(self, **values: str) -> bytes:
        """Encrypt and write as a dotenv file, whose metadata are flat."""
        tree = self.encrypt([values])[0]
        block = tree.pop("sops")
        recipient = block.pop("age")[0]
        flat = {f"sops_{key}": value for key, value in block.items()}
        flat |= {f"sops_age__list_0__map_{key}": value for key, value in recipient.items()}
        lines = [
            f"{key}={str(value).replace(chr(10), chr(92) + 'n')}"
            for key, value in (tree | flat).items()
        ]
        return "\n".join(lines).encode() + b"\n"


def as_yaml(documents: Sequence[dict[str, Any]]) -> bytes:
    """Write trees as a YAML stream, in order and without aliases."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False).encode()


def spell(value: Any) -> bytes:
    """Spell a value as SOPS hashes it."""
    if isinstance(value, bool):
        return str(value).encode()
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").encode()  # Tests use odd multiples of 1/4.
    return str(value).encode()


def name_of(value: Any) -> str:
    """Name the type of a value."""
    return {bool: "bool", int: "int", float: "float", str: "str"}[type(value)]


class _Dumper(yaml.SafeDumper):
    """PyYAML takes ``0E0`` for text, Go does not: whatever starts like a number is quoted."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # as the base class has it
        return True

    def text(self, text: str) -> yaml.Node:
        style = '"' if text[:1] in tuple("0123456789.+-") else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.text)
