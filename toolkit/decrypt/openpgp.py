"""OpenPGP secret keys, exported without a passphrase (``gpg --armor --export-secret-keys``).

pysequoia does the cryptography, without gpg-agent. It hands out one encryption subkey of a key at
a time, so every subkey is loaded with its primary key as a key of its own: after a rotation, old
documents still open. Sequoia refuses expired keys; their expiry has to be extended.
"""

import re
from collections.abc import Iterator

import pysequoia
from pysequoia.packet import Packet, PacketPile, Tag

from toolkit.decrypt.errors import DecryptionError


class OpenPgpKeys:
    """The decryption keys of one exported key ring."""

    __slots__ = ("_decryptors",)

    def __init__(self, decryptors: list[pysequoia.PyDecryptor]) -> None:
        self._decryptors = decryptors

    def open(self, encrypted: str) -> bytes | None:
        """Decrypt an armoured message; ``None`` if it is for none of the keys."""
        for decryptor in self._decryptors:
            try:
                return pysequoia.decrypt(encrypted.encode(), decryptor).bytes
            # pysequoia has no errors of its own; a damaged message looks like a foreign one.
            except (RuntimeError, UnicodeEncodeError):
                continue
        return None


def load(data: bytes) -> OpenPgpKeys:
    """Read an exported key ring, armoured (also several blocks) or binary.

    Raises:
        DecryptionError: no secret key with a usable encryption subkey.
    """
    decryptors = [
        decryptor
        for block in _ARMOUR.findall(data) or [data]
        for key in _keys(_packets(block))
        if (decryptor := _decryptor(key)) is not None
    ]
    if not decryptors:
        raise DecryptionError(
            "there is no OpenPGP secret key that can decrypt: "
            "it must hold an encryption subkey, unexpired, and have no passphrase"
        )
    return OpenPgpKeys(decryptors)


_ARMOUR = re.compile(
    rb"-----BEGIN PGP PRIVATE KEY BLOCK-----.*?-----END PGP PRIVATE KEY BLOCK-----", re.DOTALL
)


def _packets(block: bytes) -> list[Packet]:
    try:
        # A packet of a private kind is an error when it is asked what it is.
        return [packet for packet in PacketPile.from_bytes(block) if packet.tag is not None]
    except RuntimeError:
        raise DecryptionError("it is not an OpenPGP key") from None


def _keys(packets: list[Packet]) -> Iterator[list[Packet]]:
    """Yield each primary key with each of its subkeys; a primary key alone first."""
    primary: list[Packet] = []
    unit: list[Packet] = []
    for packet in packets:
        if packet.tag == Tag.SecretKey:
            yield unit
            primary, unit = [], [packet]
        elif packet.tag in (Tag.SecretSubkey, Tag.PublicSubkey):
            yield unit
            primary = primary or unit
            unit = [*primary, packet]
        else:
            unit.append(packet)
    yield unit


def _decryptor(key: list[Packet]) -> pysequoia.PyDecryptor | None:
    if not key or key[0].tag != Tag.SecretKey:
        return None
    try:
        return pysequoia.Tsk.from_packets(key).decryptor()
    except RuntimeError:
        return None
