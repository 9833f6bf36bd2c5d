"""Who may ask for reviews: whoever reaches the port, or API servers that prove who they are.

A review tells who writes, and whoever sends one can write anything there. The answer to an
encrypted Secret holds what it decrypts to, so where not only API servers reach the port, nothing
but a certificate keeps others from having documents decrypted in the name of an administrator.

1. The certificate is verified by TLS against the authorities that were given, and no others.
2. Its common name must be one of those that were given: authorities of clusters sign many.

Conversions are not asked about: API servers show no certificate there, and the answer holds nothing
but the objects that were sent.
"""

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.x509.oid import NameOID

from certs.serving import Serving

_ANY: Final = frozenset[str]()


@dataclass(frozen=True, slots=True)
class Callers:
    """The common names of those who may ask; without any, all that the authorities signed."""

    names: frozenset[str] = _ANY

    @classmethod
    def trusting(cls, serving: Serving, path: str, names: tuple[str, ...]) -> Self:
        """Have certificates asked for, by the authorities in a file (PEM).

        Raises:
            CertificateError: the file holds none.
            OSError: it cannot be read.
        """
        serving.trust(Path(path).read_bytes())
        return cls(frozenset(names))

    def know(self, transport: asyncio.BaseTransport | None) -> bool:
        """Tell whether the client of a connection has proven to be one of them."""
        connection = transport.get_extra_info("ssl_object") if transport else None
        if not isinstance(connection, ssl.SSLObject):
            return False
        # 1. What was not verified has no fields.
        shown = connection.getpeercert(binary_form=True) if connection.getpeercert() else None
        if shown is None:
            return False
        # 2.
        subject = x509.load_der_x509_certificate(shown).subject
        found = {str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)}
        return not self.names or not self.names.isdisjoint(found)
