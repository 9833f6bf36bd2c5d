"""Why there is no connection, in words: Python's own texts begin with ``[Errno 111]``."""

import os
import socket
import ssl


def cause(error: BaseException) -> str:
    """Return the reason in few words; what is not an error of a connection tells its own."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {getattr(error, 'verify_message', '') or error}"
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", "")
        return f"TLS failed: {reason}" if reason else "TLS failed"
    if isinstance(error, socket.gaierror):
        return "the host name cannot be resolved"
    if isinstance(error, TimeoutError):
        return "no response in time"
    if isinstance(error, OSError) and (error.errno or 0) > 0:
        text = os.strerror(error.errno or 0)
        return text[:1].lower() + text[1:]
    return str(error)
