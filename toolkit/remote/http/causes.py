"""Why a request of aiohttp got no answer, in the words of ``toolkit.remote.causes``."""

import aiohttp

from toolkit.remote import causes


def cause(error: BaseException) -> str:
    """Return the innermost reason in a few words, none of which is the server's."""
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return causes.CLOSED
    # ClientConnectorError and ClientConnectorCertificateError each hold what they wrap.
    inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
    return causes.cause(inner or error)
