"""URLs as aiohttp's library reads them, in the one place that does.

Users and servers write these URLs. The library decodes a host only when it is read, so a text that
it takes may still fail later, and for some texts it raises an ``IndexError``. Therefore host and
port are read here, and the only error is a ``ValueError``.
"""

import re
from typing import Final

from yarl import URL

_PORT: Final = re.compile(r":[0-9]+\Z")
LONGEST: Final = 8192
"""Characters of a URL; the library remembers what it has read."""


def read(text: str | URL, *, encoded: bool = False) -> URL:
    """Return a URL whose host and port can be read; ``encoded`` keeps the text as it is.

    Raises:
        ValueError: the text is not a URL, or is too long.
    """
    if isinstance(text, str) and len(text) > LONGEST:
        raise ValueError(f"it has more than {LONGEST} characters")
    try:
        found = URL(text, encoded=encoded)
        _ = found.host, found.port
    except IndexError as exc:  # ``//@][@``
        raise ValueError("it is not a URL") from exc
    # The library takes what ``int`` takes: others do not see the same port in ``:+1`` and ``:8_0``.
    if found.explicit_port is not None and not _PORT.search(found.raw_authority):
        raise ValueError("its port is not a number")
    return found
