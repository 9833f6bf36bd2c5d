"""Types shared by the key modules and the key ring: recipients, openers, keys and answers.

A recipient is public and may be named in messages. An opener holds a secret key, decrypts data keys
with it, and discloses nothing else. The engine decrypts other data keys with a secret key from the
request (``toolkit.decrypt.engine``), and key services with their own keys
(``toolkit.decrypt.kms``). Both are called before; their answers are values too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

from toolkit.errors import PenstockError

TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        # list of the sops block: what people call it
        "age": "age",
        "pgp": "OpenPGP",
        "kms": "AWS KMS",
        "gcp_kms": "Google Cloud KMS",
        "azure_kv": "Azure Key Vault",
        "hc_vault": "HashiCorp Vault",
        "hckms": "Huawei Cloud KMS",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """One encryption of the data key, as the ``sops`` block lists it."""

    kind: str
    """Name of the list: ``age``, ``pgp``, or one of the key services."""
    name: str
    """Public key, fingerprint, or address at the key service."""
    encrypted: str
    """The encrypted data key: armoured for age and OpenPGP."""
    fields: tuple[tuple[str, str], ...] = ()
    """Further fields for a key service, by their names in the block. The author of the file chose
    them.
    """
    context: tuple[tuple[str, str], ...] = ()
    """The encryption context that AWS binds the data key to."""

    def field(self, name: str) -> str:
        """Return a field, or nothing."""
        return next((value for key, value in self.fields if key == name), "")

    @property
    def shown(self) -> str:
        """Return kind and name, for a message."""
        return f"{TITLES.get(self.kind, self.kind)} ({self.name})"


class Opener(Protocol):
    """A set of secret keys of one kind."""

    def open(self, encrypted: str) -> bytes | None:
        """Return the data key, or ``None`` if no key of the set fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The keys in one entry of a Secret."""

    opener: Opener | None = None
    """Opens data keys here."""
    left: bytes = field(default=b"", repr=False)
    """Keys that only the engine can use, unchanged."""
    findings: tuple[str, ...] = ()
    """Why others are of no use; no content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyKind:
    """One row of ``KEYS``."""

    name: str
    """List of the ``sops`` block whose entries such a key opens."""
    suffix: str
    """Ending of the keys of the Secret that hold such keys."""
    load: Callable[[bytes], Loaded]
    """Reads the value of such a key."""
    operation: str
    """The operation of the engine for the keys that are left to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the engine or a key service did not decrypt a data key: key and remedy, no secret.

    ``passing`` means that the next attempt may succeed without a change. An empty message means
    that no key is a recipient.
    """

    message: str = ""
    passing: bool = False


Groups = Sequence[Sequence[Recipient]]


class UnaskedError(PenstockError):
    """The engine or key services may have the data key, and have not been asked yet.

    This is not an error of the document, so it is not a DecryptionError. ``kms.services`` collects
    the answers: it asks recipients of each of ``groups`` until ``needed`` groups are decrypted.
    """

    def __init__(self, groups: Groups, *, needed: int) -> None:
        super().__init__("the engine or key services have to be asked")
        self.groups = tuple(map(tuple, groups))
        self.needed = needed
