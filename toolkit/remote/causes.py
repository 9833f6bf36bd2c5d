"""Reasons of failed connections, with fixed texts.

Python's texts begin with ``[Errno 111]``. Those of HTTP libraries quote their input: the banner of
a server, a header, the address of a name. A tenant who chooses the address of the connection could
learn from them about other services. So a message contains only texts of this table.

HTTP clients built on aiohttp use ``toolkit.remote.http.causes``, which adds aiohttp's exceptions;
the workers that use this module do not load aiohttp.
"""

import http.client
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from toolkit.remote.addresses import OutOfReachError

CLOSED: Final = "the connection was closed before the response was complete"
NO_RESPONSE: Final = "no response in time"
NOT_HTTP: Final = "the response is not HTTP"


UNTRUSTED: Final = "certificate verify failed"
PLAIN: Final = "the server does not speak TLS"
_NO_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"}
)
"""Reasons of OpenSSL for an answer that begins as that of a server without TLS."""


def cause(error: BaseException, *, otherwise: str = NOT_HTTP) -> str:
    """Return the reason in a few words; ``otherwise`` for an error that is not in the table."""
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return words(error) if callable(words) else words
    return otherwise


def _certificate(error: Any) -> str:
    why = getattr(error, "verify_message", "")
    return f"{UNTRUSTED}: {why}" if why else UNTRUSTED


def _tls(error: Any) -> str:
    reason = getattr(error, "reason", "")
    if reason in _NO_TLS:
        return f"{PLAIN} ({reason})"
    return f"TLS failed: {reason}" if reason else "TLS failed"


def _system(error: Any) -> str:
    number = error.errno or 0
    if number <= 0:
        return "no connection"
    text = os.strerror(number)
    return text[:1].lower() + text[1:]


_WORDS: Final[tuple[tuple[type[BaseException], str | Callable[[Any], str]], ...]] = (
    # A class comes before its base class; most of these are subclasses of OSError.
    (OutOfReachError, str),
    (ssl.SSLCertVerificationError, _certificate),
    (ssl.SSLError, _tls),
    (socket.gaierror, "the host name cannot be resolved"),
    (http.client.RemoteDisconnected, CLOSED),
    (http.client.IncompleteRead, CLOSED),
    (http.client.HTTPException, NOT_HTTP),
    (TimeoutError, NO_RESPONSE),
    (OSError, _system),
)
