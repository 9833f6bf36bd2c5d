"""TLS for a server whose certificate changes while it serves.

A new certificate counts for connections that begin after it was loaded; those that are open go on
with the one they began with, so nothing is dropped. HTTP/1.1 is all that is offered: an API server
then spreads its requests over connections, and connections over replicas.

A server may ask clients for certificates. None is needed to be heard; one that is shown must be of
an authority that was told by ``trust``, or the handshake fails: OpenSSL verifies what it asked for.
Which of the authorities it was is for the server to find out.
"""

import os
import ssl

from certs.authority import CertificateError, Pair


class Serving:
    """The TLS context to listen with; ``load`` it before the first client comes."""

    def __init__(self, *, ask_clients: bool = False) -> None:
        self._clients: str | None = "" if ask_clients else None
        # Whether a certificate is asked for is decided by the first context, who made it by the
        # chosen one.
        self.context = _context(self._clients)
        self.context.sni_callback = self._choose
        self._pair: Pair | None = None
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
        self._current, self._pair = self._loaded(pair), pair

    def trust(self, authorities: bytes) -> None:
        """Take certificates of clients by these authorities (PEM) from now on.

        Raises:
            CertificateError: they are none; those before stay.
        """
        before, self._clients = self._clients, authorities.decode("ascii", "replace")
        try:
            # An empty bundle trusts nobody.
            _context(self._clients)
            if self._pair is not None:
                self._current = self._loaded(self._pair)
        except ssl.SSLError as exc:
            self._clients = before
            raise CertificateError("not a bundle of PEM certificates") from exc

    def _loaded(self, pair: Pair) -> ssl.SSLContext:
        context = _context(self._clients)
        fd = os.memfd_create("serving-certificate", os.MFD_CLOEXEC)
        with os.fdopen(fd, "wb") as file:
            file.write(pair.certificate + b"\n" + pair.key)
            file.flush()
            try:
                # An encrypted key would make OpenSSL ask on the terminal.
                context.load_cert_chain(f"/proc/self/fd/{fd}", password="")
            except (ssl.SSLError, ValueError) as exc:
                raise CertificateError("the certificate and its key do not fit") from exc
        return context

    def _choose(
        self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def _context(clients: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Every API server that is still supported speaks it.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["http/1.1"])
    # API servers do not resume sessions.
    context.num_tickets = 0
    if clients is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        # An authority counts although another one signed it, as in Go.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if clients:
            context.load_verify_locations(cadata=clients)
    return context
