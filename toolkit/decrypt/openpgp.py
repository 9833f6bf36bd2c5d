"""OpenPGP secret keys, exported without a passphrase (``gpg --armor --export-secret-keys``).

The engine parses them in a worker (``toolkit.decrypt.engine``), with the library that SOPS itself
uses. It tries every key and subkey, including expired ones, so that old documents can still be
decrypted after a rotation. There is no gpg-agent, and no prompt for a passphrase.
"""

from toolkit.decrypt.keys import Loaded


def load(data: bytes) -> Loaded:
    """Leave an exported key ring, armoured (also several blocks) or binary, to the engine."""
    return Loaded(left=data) if data.strip() else Loaded(findings=("it is empty",))
