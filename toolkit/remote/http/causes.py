"""Why a request got no answer, in our own words.

aiohttp's messages quote what it read, a server's banner or header, and where names lead. Who may
have us ask an address would read by them what answers there, so nothing of that is passed on.
"""

import os
import ssl
from collections.abc import Callable
from typing import Final

import aiohttp

from toolkit.remote.addresses import OutOfReachError


def cause(error: Exception) -> str:
    """Return the innermost reason in few words, none of which is the server's."""
    inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    for kind, words in _WORDS:
        if isinstance(inner, kind):
            return words(inner)
    return "the response is not HTTP"


def _errno(error: Exception) -> str:
    number = getattr(error, "errno", None) or 0
    return os.strerror(number) if number > 0 else "no connection"


_WORDS: Final[tuple[tuple[type[Exception], Callable[[Exception], str]], ...]] = (
    # the special before the general
    (OutOfReachError, str),
    (
        ssl.SSLCertVerificationError,
        lambda error: getattr(error, "verify_message", "") or "its certificate cannot be verified",
    ),
    (ssl.SSLError, lambda error: getattr(error, "reason", "") or "TLS failed"),
    (
        aiohttp.ServerDisconnectedError,
        lambda _: "the connection was closed before the response was complete",
    ),
    (
        aiohttp.ClientPayloadError,
        lambda _: "the connection was closed before the response was complete",
    ),
    (TimeoutError, lambda _: "no response in time"),
    (OSError, _errno),
)
