"""Load RSA keys from Secrets, with a limit of the cost.

Loading a key checks whether its parts are primes, and blocks the event loop. That takes 0.04 s for
2,048 bits, 0.3 s for 4,096 and 4.5 s for 8,192 (measured), so larger keys are refused by the length
of their text. No service for which such keys are used issues larger ones.
"""

from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

LONGEST: Final = 4096
"""Characters of PEM text: a key of 4,096 bits has 3,272."""


class RSAKeyError(ValueError):
    """Why a key cannot be used, as the end of a sentence: it ``is longer than …``."""


def load(pem: bytes, password: bytes | None = None) -> RSAPrivateKey:
    """Return the private key of a PEM text without other content.

    Raises:
        RSAKeyError: there is no key, or one that takes too long to check.
    """
    if len(pem.strip()) > LONGEST:
        raise RSAKeyError(f"is longer than {LONGEST} characters: use an RSA key of 4096 bits")
    try:
        key = load_pem_private_key(pem, password)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise RSAKeyError("is not a PEM private key") from exc
    if not isinstance(key, RSAPrivateKey):
        raise RSAKeyError("is not an RSA key")
    return key
