"""TLS for a server whose certificate changes while it serves.

A new certificate counts for connections that begin after it was loaded; those that are open go on
with the one they began with, so nothing is dropped. HTTP/1.1 is all that is offered: an API server
then spreads its requests over connections, and connections over replicas.
"""

import os
import ssl

from certs.authority import CertificateError, Pair


class Serving:
    """The TLS context to listen with; ``load`` it before the first client comes."""

    def __init__(self) -> None:
        self.context = _context()
        self.context.sni_callback = self._choose
        self._current: ssl.SSLContext | None = None

    @property
    def loaded(self) -> bool:
        """Tell whether there is a certificate to serve."""
        return self._current is not None

    def load(self, pair: Pair) -> None:
        """Serve this certificate from now on.

        Raises:
            CertificateError: it and the key do not fit; the one before stays.
        """
        context = _context()
        fd = os.memfd_create("serving-certificate", os.MFD_CLOEXEC)
        with os.fdopen(fd, "wb") as file:
            file.write(pair.certificate + b"\n" + pair.key)
            file.flush()
            try:
                # An encrypted key would make OpenSSL ask on the terminal.
                context.load_cert_chain(f"/proc/self/fd/{fd}", password="")
            except (ssl.SSLError, ValueError) as exc:
                raise CertificateError("the certificate and its key do not fit") from exc
        self._current = context

    def _choose(
        self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Every API server that is still supported speaks it.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["http/1.1"])
    # API servers do not resume sessions.
    context.num_tickets = 0
    return context
