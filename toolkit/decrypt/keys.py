"""What the key modules and the key ring agree on: recipients, openers, kinds of keys.

A recipient is public and may be named in messages. An opener holds a secret key; it is asked only
to open data keys, and shows nothing of itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """One encryption of the data key, as the ``sops`` block lists it."""

    kind: str
    """Name of the list: ``age``, ``pgp``, or one of the key services."""
    name: str
    """Public key, fingerprint, or address at the key service."""
    encrypted: str
    """The encrypted data key: armoured for age and OpenPGP."""


class Opener(Protocol):
    """A set of secret keys of one kind."""

    def open(self, encrypted: str) -> bytes | None:
        """Return the data key, or ``None`` if no key of the set fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyKind:
    """One row of ``KEYS``."""

    name: str
    """List of the ``sops`` block whose entries such a key opens."""
    suffix: str
    """Ending of the keys of the Secret that hold such keys."""
    load: Callable[[bytes], Opener]
    """Reads the value of such a key; raises ``DecryptionError`` if it is of no use."""
