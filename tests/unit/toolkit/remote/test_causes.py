"""Why a connection failed is told in our words: no numbers, and nothing of what was read."""

import errno
import http.client
import socket
import ssl

import pytest

from toolkit.remote.addresses import OutOfReachError
from toolkit.remote.causes import cause


def unverified() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] x (_ssl.c:1)")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed"), "connection refused"),
        (OSError(errno.EHOSTUNREACH, "x"), "no route to host"),
        (OSError("Multiple exceptions: 10.0.0.5"), "no connection"),
        (OutOfReachError("'h' is a private address"), "'h' is a private address"),
        (socket.gaierror(-2, "10.0.0.5"), "the host name cannot be resolved"),
        (TimeoutError("timed out"), "no response in time"),
        (unverified(), "certificate verify failed: self-signed certificate"),
        (ssl.SSLCertVerificationError("secret"), "certificate verify failed"),
        (ssl.SSLError(1, "[SSL] secret"), "TLS failed"),
        (
            http.client.RemoteDisconnected("x"),
            "the connection was closed before the response was complete",
        ),
        (
            http.client.IncompleteRead(b"secret"),
            "the connection was closed before the response was complete",
        ),
        (http.client.BadStatusLine("SSH-2.0-secret"), "the response is not HTTP"),
        (ValueError("secret"), "the response is not HTTP"),
    ],
)
def test_cause_is_in_our_words(error: BaseException, words: str) -> None:
    assert cause(error) == words


def test_caller_may_name_what_the_table_does_not_know() -> None:
    assert cause(ValueError("x"), otherwise="connection lost") == "connection lost"
