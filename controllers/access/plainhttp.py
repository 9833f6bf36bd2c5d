"""The rule for servers without TLS, with one reason for all kinds of sources.

Each kind finds out by itself whether a spec asks for plain HTTP: from the scheme of the URL, or
from ``spec.insecure``.
"""

from typing import Final

from toolkit.errors import StalledError

_REASON: Final = "InsecureConnectionsDisallowed"


def scheme(url: str) -> str:
    """Return the scheme of a URL that the schema of its kind let pass."""
    return url.partition("://")[0]


def refusal(said: str) -> StalledError:
    """Return the error for a spec that asks for plain HTTP; ``said`` names the field and a verb."""
    return StalledError(
        f"{said} plain HTTP, which --insecure-allow-http=false forbids", reason=_REASON
    )
