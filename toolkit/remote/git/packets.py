"""Errors of servers in an ``ERR`` packet (gitprotocol-common(5)).

dulwich expects it only at some places of a conversation. At others the reason would be lost, and
with it whether another request might succeed.
"""

from collections.abc import Callable
from typing import Final

from toolkit.remote.git.errors import GitError
from toolkit.remote.git.url import GitUrl

_MARK: Final = b"ERR "
_SHOWN: Final = 500


def watched(read: Callable[[int], bytes], url: GitUrl) -> Callable[[int], bytes]:
    """Return a ``read`` that raises ``GitError`` when it receives such a packet.

    dulwich reads the four digits of a packet's length, then its content. The content of a pack
    cannot be mistaken for it, because it follows the number of its side band.
    """

    def reading(size: int) -> bytes:
        data = read(size)
        if data.startswith(_MARK):
            said = data[len(_MARK) :][:_SHOWN].decode("utf-8", "replace").strip()
            raise GitError(f"'{url}' refused: {said}")
        return data

    return reading
