"""Why there is no connection is told in words."""

import errno
import socket
import ssl

import pytest

from toolkit.remote.git.causes import cause


def unverified() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] x (_ssl.c:1)")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed"), "connection refused"),
        (OSError(errno.EHOSTUNREACH, "x"), "no route to host"),
        (socket.gaierror(-2, "x"), "the host name cannot be resolved"),
        (TimeoutError("timed out"), "no response in time"),
        (unverified(), "certificate verify failed: self-signed certificate"),
        (ssl.SSLError(1, "[SSL] x"), "TLS failed"),
        (OSError("the tunnel is closed"), "the tunnel is closed"),
        (ValueError("Disconnected"), "Disconnected"),
    ],
)
def test_cause_has_no_numbers(error: BaseException, words: str) -> None:
    assert cause(error) == words
