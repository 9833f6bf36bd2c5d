"""The system's certificate authorities, read when a connection needs them.

``import aiohttp`` makes two contexts with all authorities of the system: 1.6 MiB in each process,
though nearly all connections are to a cluster with an authority of its own, or are not encrypted.
The contexts here take their place. They differ in nothing but the moment: before they have read the
authorities they trust nobody.
"""

import ssl

from aiohttp import connector


def defer() -> None:
    """Have aiohttp's contexts read the authorities at their first handshake (20 ms)."""
    # The only place for them; if a later aiohttp has another one, this fails at the start.
    verified, unverified = connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED  # noqa: SLF001
    connector._SSL_CONTEXT_VERIFIED = _later(verified)  # noqa: SLF001
    connector._SSL_CONTEXT_UNVERIFIED = _later(unverified)  # noqa: SLF001


class Later(ssl.SSLContext):
    """A client's context that has no authorities before its first handshake."""

    _complete = False

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - the interpreter's signature
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a handshake; asyncio has no other way to."""
        if not self._complete:
            self.load_default_certs(ssl.Purpose.SERVER_AUTH)
            self._complete = True
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def _later(present: ssl.SSLContext) -> ssl.SSLContext:
    """Return a context with the settings of one that has the authorities already."""
    if isinstance(present, Later):
        return present
    found = Later(ssl.PROTOCOL_TLS_CLIENT)
    found.check_hostname, found.verify_mode = present.check_hostname, present.verify_mode
    found.verify_flags, found.options = present.verify_flags, present.options
    found.minimum_version = present.minimum_version
    found.set_alpn_protocols(("http/1.1",))  # cannot be read; as aiohttp sets it
    return found
