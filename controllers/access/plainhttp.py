"""Whether servers without TLS are asked: one rule, with one reason, for every kind of source.

How a kind tells that a server has none is its own business: by the scheme of the URL, or by
``spec.insecure``.
"""

from typing import Final

from toolkit.errors import StalledError

_REASON: Final = "InsecureConnectionsDisallowed"


def scheme(url: str) -> str:
    """Return the scheme of a URL that the schema of its kind let pass."""
    return url.partition("://")[0]


def refusal(said: str) -> StalledError:
    """Return the error for a spec that asks for plain HTTP; ``said`` is where and how it does."""
    return StalledError(
        f"{said} plain HTTP, which --insecure-allow-http=false forbids", reason=_REASON
    )
