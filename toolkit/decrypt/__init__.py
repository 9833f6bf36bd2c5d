"""SOPS: documents, and values inside objects, decrypted with keys from a Secret."""

from typing import Final

from toolkit.decrypt import age, openpgp
from toolkit.decrypt.keys import KeyKind

KEYS: Final = (
    # age and SSH identities; tried first, because they cost least.
    KeyKind(name="age", suffix=".agekey", load=age.load, operation="age.open"),
    # Exported OpenPGP secret keys.
    KeyKind(name="pgp", suffix=".asc", load=openpgp.load, operation="openpgp.open"),
)
