"""OpenPGP secret keys, exported without a passphrase (``gpg --armor --export-secret-keys``).

They are not read here: the engine does, in a worker (``toolkit.decrypt.engine``), with the library
that SOPS itself uses. It opens with every key and subkey that is there, also expired ones, so that
old documents still open after a rotation. There is no gpg-agent and nobody to ask for a passphrase.
"""

from toolkit.decrypt.keys import Loaded


def load(data: bytes) -> Loaded:
    """Leave an exported key ring, armoured (also several blocks) or binary, to the engine."""
    return Loaded(left=data) if data.strip() else Loaded(findings=("it is empty",))
