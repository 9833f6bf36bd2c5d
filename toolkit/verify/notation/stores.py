"""The certificates of a Notary Project trust policy: which of a Secret's are in which trust stores.

Trust stores are not kept apart by their names: as with Flux, every certificate of the Secret is in
every store, with one exception. A key that begins with a type, as in ``tsa.example.crt``, counts
for stores of that type only, and then these stores hold no other certificates.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from toolkit.verify.notation.steps import unusable

TYPES: Final = ("ca", "signingAuthority", "tsa")

_BEGIN: Final = b"-----BEGIN"
_MAX_CERTIFICATES: Final = 64


@dataclass(frozen=True, slots=True)
class Certificate:
    """A trusted certificate and the key of the Secret that it came from."""

    name: str
    der: bytes


Stores = Mapping[str, tuple[Certificate, ...]]


def read(certificates: Mapping[str, bytes]) -> Stores:
    """Return the certificates by the type of their trust store.

    A timestamp authority is trusted only by its root. So of the certificates without a type, only
    root certificates count for these stores.

    Raises:
        VerificationError: an entry is not a certificate, or not one of an authority.
    """
    if sum(content.count(_BEGIN) for content in certificates.values()) > _MAX_CERTIFICATES:
        raise unusable(f"the secret holds more than {_MAX_CERTIFICATES} certificates")
    given: dict[str, list[tuple[Certificate, x509.Certificate]]] = {}
    for name, content in sorted(certificates.items()):
        kind = name.partition(".")[0] if name.count(".") > 1 else ""
        for certificate in _parse(name, content):
            held = given.setdefault(kind if kind in TYPES else "", [])
            held.append((Certificate(name, certificate.public_bytes(Encoding.DER)), certificate))
    unnamed = given.get("", [])
    filled = {kind: given.get(kind, unnamed) for kind in TYPES}
    if "tsa" not in given:
        filled["tsa"] = [pair for pair in unnamed if _signed_itself(pair[1])]
    return MappingProxyType({kind: tuple(one for one, _ in held) for kind, held in filled.items()})


def _parse(name: str, content: bytes) -> Iterator[x509.Certificate]:
    try:
        if _BEGIN in content:
            found = x509.load_pem_x509_certificates(content)
        else:
            found = [x509.load_der_x509_certificate(content)]
        for certificate in found:
            if not _is_authority(certificate) and not _signed_itself(certificate):
                raise unusable(
                    f"'{name}' in the secret is a signer's certificate: put the certificate of "
                    "the authority that issued it there"
                )
            yield certificate
    except ValueError as exc:
        raise unusable(f"'{name}' in the secret holds no certificate") from exc


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _signed_itself(certificate: x509.Certificate) -> bool:
    if certificate.issuer != certificate.subject:
        return False
    try:
        certificate.verify_directly_issued_by(certificate)
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature):
        return False
    return True
