"""Which callers may send reviews: all that reach the port, or only proven API servers.

A review states the requester, so its sender can state any user. The answer to an encrypted Secret
contains the decrypted values. So without a proof of the caller, other senders could have documents
decrypted in the name of an administrator. The following is required, as far as it is configured,
and all of it must hold:

1. The request did not come through a proxy. API servers forward requests of users who may use
   ``pods/proxy`` or ``services/proxy``, from their own address and to any address that a tenant's
   object names. The proxy adds headers that a client cannot remove. Reviews of the API server have
   no such headers, and no host in between can add them, because TLS ends here.
2. The address is in one of the given networks.
3. The certificate is verified by TLS against the given authorities, and no others. Its common name
   is one of the given names, because authorities of clusters sign many certificates.

If nothing is configured, plugins that disclose data are not enabled. Conversions need only 1 and 2:
API servers present no certificate for them, and the answer contains only the objects of the
request.

Addresses are the weaker proof: they are safe only if no other host can send from them.
"""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.x509.oid import NameOID

from certs.serving import Serving
from toolkit.kube.options import Options

_ANY: Final = frozenset[str]()
_CARRIED: Final = ("X-Forwarded-Uri", "X-Forwarded-Host", "X-Forwarded-For", "Forwarded", "Via")
"""Headers that proxies add; API servers add ``X-Forwarded-Uri`` (``apimachinery/pkg/util/net`` and
``util/proxy``), and with ``Upgrade`` only ``X-Forwarded-For``.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callers:
    """The required proofs of a caller; empty ``names`` allow every certified name."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    certified: bool = False
    names: frozenset[str] = _ANY

    @classmethod
    def trusting(cls, serving: Serving, options: Options) -> Self:
        """Return the proofs that the flags require, and request client certificates if needed.

        Raises:
            ValueError: a network is not valid.
            CertificateError: the file of authorities contains no certificate.
            OSError: the file cannot be read.
        """
        if options.webhook_client_ca_file:
            serving.trust(Path(options.webhook_client_ca_file).read_bytes())
        return cls(
            networks=tuple(_network(text) for text in options.webhook_client_networks),
            certified=bool(options.webhook_client_ca_file),
            names=frozenset(options.webhook_client_names),
        )

    @property
    def proven(self) -> bool:
        """Tell whether anything is demanded."""
        return self.certified or bool(self.networks)

    def know(self, transport: asyncio.BaseTransport | None, headers: Mapping[str, str]) -> bool:
        """Tell whether the client of a connection has proven to be one of them."""
        if not self.reach(transport, headers):
            return False
        # 3.
        return not self.certified or self._certified(transport)

    def reach(self, transport: asyncio.BaseTransport | None, headers: Mapping[str, str]) -> bool:
        """Tell whether it may be one of them, by all that shows without a certificate."""
        if not self.proven:
            return True
        # 1.
        if any(name in headers for name in _CARRIED):
            return False
        # 2.
        return not self.networks or self._near(transport)

    def _near(self, transport: asyncio.BaseTransport | None) -> bool:
        peer = transport.get_extra_info("peername") if transport else None
        if not peer:
            return False
        address = ip_address(str(peer[0]).partition("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return any(address in network for network in self.networks)

    def _certified(self, transport: asyncio.BaseTransport | None) -> bool:
        connection = transport.get_extra_info("ssl_object") if transport else None
        if not isinstance(connection, ssl.SSLObject):
            return False
        # A certificate that was not verified has no fields.
        shown = connection.getpeercert(binary_form=True) if connection.getpeercert() else None
        if shown is None:
            return False
        subject = x509.load_der_x509_certificate(shown).subject
        found = {str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)}
        return not self.names or not self.names.isdisjoint(found)


ANYBODY: Final = Callers()
"""Nothing is demanded."""


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as exc:
        raise ValueError(f"--webhook-client-networks: {exc}") from exc
