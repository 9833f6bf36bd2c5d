"""What the key modules and the key ring agree on: recipients, openers, kinds of keys, answers.

A recipient is public and may be named in messages. An opener holds a secret key; it only opens data
keys, and shows nothing of itself. The engine opens other data keys with the secret key that it
receives with the request (``toolkit.decrypt.engine``), key services with their own keys
(``toolkit.decrypt.kms``). Both are asked beforehand; their answers are values too.
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
    """What a key service must know of it, by the block's names. The author of the file chose it."""
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
    """What one entry of a Secret holds."""

    opener: Opener | None = None
    """Opens data keys here."""
    left: bytes = field(default=b"", repr=False)
    """Keys that only the engine can use, as they stand in the entry."""
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
    """What the engine does with keys that are left to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the engine or a key service did not open a data key: key and remedy, and no secret.

    ``passing`` is whether the next attempt may go better with nothing changed. No message means
    that it is for none of the keys.
    """

    message: str = ""
    passing: bool = False


Groups = Sequence[Sequence[Recipient]]


class UnaskedError(PenstockError):
    """The engine or key services could tell the data key, and have not been asked yet.

    No failure of the document, so that nobody takes it for one: the one who gathers the answers
    (``kms.services``) asks one of each of ``groups`` until ``needed`` of them are opened.
    """

    def __init__(self, groups: Groups, *, needed: int) -> None:
        super().__init__("the engine or key services have to be asked")
        self.groups = tuple(map(tuple, groups))
        self.needed = needed
