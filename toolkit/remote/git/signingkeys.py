"""The Secret with the key that commits are signed with.

Only its shape is read here. The key itself is opened in a Git worker (``signing``).
"""

from collections.abc import Mapping
from typing import Final, Literal

from toolkit.remote.git.errors import GitAuthError
from toolkit.remote.git.wire import SigningKey

_ENTRIES: Final = {"gpg": ("git.asc", "passphrase"), "ssh": ("identity", "password")}
"""By the type of a key: the entries of its Secret."""
_ARMOUR: Final = {"gpg": b"PRIVATE KEY BLOCK-----", "ssh": b"PRIVATE KEY-----"}


def from_secret(kind: Literal["gpg", "ssh"], data: Mapping[str, bytes]) -> SigningKey:
    """Return the key of a Secret; ``kind`` is ``gpg`` or ``ssh``.

    Raises:
        GitAuthError: the Secret has no such key, or the key is invalid.
    """
    entry, secret = _ENTRIES[kind]
    if not data.get(entry):
        raise GitAuthError(f"it has no '{entry}': put the private key there")
    if _ARMOUR[kind] not in data[entry]:
        raise GitAuthError(f"'{entry}' is not a private key in text form (-----BEGIN ...)")
    passphrase = data.get(secret, b"").decode("utf-8", "replace")
    return SigningKey(kind=kind, key=data[entry], passphrase=passphrase)
