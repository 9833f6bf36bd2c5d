"""What aiohttp raises is told in our words, without one of the server's."""

import errno
import socket
import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from toolkit.remote.addresses import OutOfReachError
from toolkit.remote.http.causes import cause

KEY = ConnectionKey(
    "h", 443, is_ssl=True, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None
)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            aiohttp.ClientConnectorError(KEY, OSError(errno.ECONNREFUSED, "Connect ('10.0.0.5')")),
            "connection refused",
        ),
        (aiohttp.ClientConnectorError(KEY, OutOfReachError("too far")), "too far"),
        (
            aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(-2, "10.0.0.5")),
            "the host name cannot be resolved",
        ),
        (
            aiohttp.ClientConnectorCertificateError(
                KEY, ssl.SSLCertVerificationError("secret", "x")
            ),
            "certificate verify failed",
        ),
        (TimeoutError(), "no response in time"),
        (
            aiohttp.ServerDisconnectedError("secret"),
            "the connection was closed before the response was complete",
        ),
        (
            aiohttp.ClientPayloadError("secret"),
            "the connection was closed before the response was complete",
        ),
        (aiohttp.ClientError("Bad status line 'SSH-2.0-secret'"), "the response is not HTTP"),
        (ssl.SSLError("secret"), "TLS failed"),
    ],
)
def test_cause_is_in_our_words(error: Exception, words: str) -> None:
    assert cause(error) == words
