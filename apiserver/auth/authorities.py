"""Which certificate authority signed a client certificate.

TLS has verified the certificate already, but against all known authorities together, and cannot say
which of them signed it. That is the whole difference between a user and the front proxy, which
speaks for every user. So the path is built again, against one bundle alone, for every request: a
connection may live longer than its certificate, and than its authority's place in the bundle.

Client certificates name no host, so no host is compared (``crypto/x509`` with
``KeyUsages: ExtKeyUsageClientAuth`` does the same upstream). Intermediate authorities must be in
the bundle; those that a client sends are ignored. Authorities' keys are those of the web: ECDSA and
RSA from 2048 bits. Ed25519, which Go accepts too, is not verified.
"""

import datetime as dt
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID

from toolkit.errors import AccessDeniedError, TransientError

_CLIENTS: Final = frozenset(
    {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
)
_REMEMBERED: Final = 256


class BundleError(TransientError):
    """A value that should be a bundle of authorities is not one."""


class UntrustedError(AccessDeniedError):
    """The certificate is not signed by an authority of the bundle."""


class Authorities:
    """The certificates of one bundle (PEM); an empty bundle verifies nothing."""

    def __init__(
        self,
        bundle: bytes,
        *,
        clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        """Read the bundle.

        Raises:
            BundleError: it holds something, but no certificates.
        """
        certificates = _certificates(bundle)
        self._clock = clock
        self._store = verification.Store(certificates) if certificates else None
        self.bundle = b"".join(each.public_bytes(Encoding.PEM) for each in certificates)
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    def verify(self, certificate: bytes) -> x509.Certificate:
        """Return the certificate (DER) of a client if an authority of the bundle signed it.

        Raises:
            UntrustedError: no authority of the bundle did, or the path has expired.
        """
        known = self._known.get(certificate)
        if known is not None:
            # 1. The path stays the same while the bundle does. But the certificates in it expire.
            # There may then be another path, so build it again.
            if known.begins <= self._clock() <= known.ends:
                self._known.move_to_end(certificate)
                return known.leaf
            del self._known[certificate]
        found = self._verified(certificate)
        self._known[certificate] = found
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return found.leaf

    def _verified(self, certificate: bytes) -> "_Known":
        if self._store is None:
            raise UntrustedError("no CA for client certificates is known")
        # 2. Verify signatures, validity and path lengths up to an authority of this bundle. 3. If
        # the certificate states its purpose, it must be for clients.
        verifier = (
            verification.PolicyBuilder()
            .store(self._store)
            .time(self._clock())
            .extension_policies(ca_policy=_authority(), ee_policy=_client())
            .build_client_verifier()
        )
        try:
            leaf = x509.load_der_x509_certificate(certificate)
            path = verifier.verify(leaf, []).chain
            # Parse the subject here, because an invalid one raises.
            _ = leaf.subject
        except (verification.VerificationError, ValueError, UnsupportedAlgorithm) as exc:
            raise UntrustedError("no known CA signed the certificate") from exc
        return _Known(
            leaf=leaf,
            begins=max(each.not_valid_before_utc for each in path),
            ends=min(each.not_valid_after_utc for each in path),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A client's certificate, and the time in which all of its path is valid."""

    leaf: x509.Certificate
    begins: dt.datetime
    ends: dt.datetime


def _certificates(bundle: bytes) -> list[x509.Certificate]:
    if not bundle.strip():
        return []
    try:
        return x509.load_pem_x509_certificates(bundle)
    except ValueError as exc:
        raise BundleError(f"not a bundle of PEM certificates: {exc}") from exc


def _authority() -> verification.ExtensionPolicy:
    return (
        verification.ExtensionPolicy.permit_all()
        .require_present(
            x509.BasicConstraints, verification.Criticality.AGNOSTIC, _signs_certificates
        )
        .may_be_present(x509.KeyUsage, verification.Criticality.AGNOSTIC, _may_sign)
    )


def _client() -> verification.ExtensionPolicy:
    return verification.ExtensionPolicy.permit_all().may_be_present(
        x509.ExtendedKeyUsage, verification.Criticality.AGNOSTIC, _for_clients
    )


def _signs_certificates(
    _policy: verification.Policy, _certificate: x509.Certificate, found: x509.BasicConstraints
) -> None:
    if not found.ca:
        raise ValueError("signed by a certificate that is not a CA")


def _may_sign(
    _policy: verification.Policy, _certificate: x509.Certificate, found: x509.KeyUsage | None
) -> None:
    if found is not None and not found.key_cert_sign:
        raise ValueError("signed by a CA that may not sign certificates")


def _for_clients(
    _policy: verification.Policy,
    _certificate: x509.Certificate,
    found: x509.ExtendedKeyUsage | None,
) -> None:
    if found is not None and _CLIENTS.isdisjoint(found):
        raise ValueError("not a client certificate")
