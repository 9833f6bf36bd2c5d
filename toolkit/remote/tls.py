"""TLS to servers whose CA is in a Secret; certificates are never written to a disk."""

import functools
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from toolkit.remote.endpoint import Endpoint
from toolkit.remote.errors import AuthError


def client_context(
    ca: bytes | None, certificate: bytes | None = None, key: bytes | None = None
) -> ssl.SSLContext:
    """Return a context that trusts only ``ca``, or the system's CAs without it; all PEM.

    Raises:
        AuthError: the input is not PEM, or the key does not fit the certificate.
    """
    if not ca and not certificate:
        return _system_context()
    try:
        # With `cadata` Python does not load the system's CAs.
        context = ssl.create_default_context(cadata=ca.decode("ascii") if ca else None)
    except (ssl.SSLError, ValueError) as exc:
        raise AuthError("'ca.crt' in the secret holds no PEM certificates") from exc
    if certificate and key:
        try:
            load_pair(context, certificate, key)
        except (ssl.SSLError, ValueError) as exc:
            raise AuthError(
                "'tls.crt' and 'tls.key' in the secret are not a PEM certificate and its key: the "
                "key must have no passphrase, and 8192 bits at most"
            ) from exc
    return context


def certified(endpoint: Endpoint, data: Mapping[str, bytes], name: str) -> Endpoint:
    """Return the endpoint with the certificates of a Secret (``spec.certSecretRef``).

    Raises:
        AuthError: it has none, or one half of a pair.
    """
    ca = data.get("ca.crt") or data.get("caFile") or None
    cert = data.get("tls.crt") or data.get("certFile") or None
    key = data.get("tls.key") or data.get("keyFile") or None
    if not (ca or cert or key):
        raise AuthError(
            f"Secret '{name}' holds no certificates: it needs 'ca.crt', or 'tls.crt' and 'tls.key'"
        )
    if bool(cert) != bool(key):
        raise AuthError(f"Secret '{name}' has only one of 'tls.crt' and 'tls.key': both are needed")
    return replace(endpoint, ca=ca, client_cert=cert, client_key=key)


@functools.cache
def _system_context() -> ssl.SSLContext:
    # Reading the system's CAs takes 20 ms, more than the rest of asking a server for a reference.
    return ssl.create_default_context()


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a client certificate and its key, both PEM, into a context.

    OpenSSL reads an encrypted key with any password, as often as its text says: with two thousand
    million rounds for hours. A signature of a large RSA key takes seconds. Both would block the
    event loop, so only plain keys of a usual length are loaded.

    Raises:
        ValueError: there is no such key.
        ssl.SSLError: OpenSSL cannot read one of them, or they do not belong together.
    """
    found = _PLAIN_KEY.search(key)
    if found is None or len(found[0]) > _LONGEST_KEY:
        raise ValueError("no PEM key without passphrase, of 8192 bits at most")
    # From memory that looks like a file, because OpenSSL takes paths only. It uses the first key.
    fd = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    with os.fdopen(fd, "wb") as file:
        file.write(found[0] + b"\n" + certificate)
        file.flush()
        # OpenSSL must never ask on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{fd}", password="")


_PLAIN_KEY: Final = re.compile(
    rb"-----BEGIN ((?:RSA |EC )?PRIVATE KEY)-----[A-Za-z0-9+/=\s]++-----END \1-----"
)
"""A key without headers: those of an encrypted one have colons."""
_LONGEST_KEY: Final = 7000
"""Characters of PEM text: an RSA key of 8,192 bits has 6,400."""
