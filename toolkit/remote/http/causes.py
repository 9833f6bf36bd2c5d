"""Why a request of aiohttp got no answer, in the words of ``toolkit.remote.causes``."""

import aiohttp

from toolkit.remote import causes


def cause(error: BaseException) -> str:
    """Return the innermost reason of an error in a fixed text, without text of the server."""
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return causes.CLOSED
    # ClientConnectorError and ClientConnectorCertificateError each wrap another error.
    inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
    return causes.cause(inner or error)
