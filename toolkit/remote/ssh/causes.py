"""Reasons of failed SSH connections, with fixed texts.

A server can send any text with its disconnect message (RFC 4253, section 11.1) and with its refusal
to run a command (RFC 4254, section 5.1), and asyncssh quotes both. A tenant who chooses the address
could learn from them about other services. See ``toolkit.remote.causes`` for connections in
general.
"""

from typing import Final

import asyncssh

from toolkit.remote import causes

_WORDS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    # A class comes before its base class.
    (asyncssh.ConnectionLost, causes.CLOSED),
    (asyncssh.KeyExchangeFailed, "the server and Penstock have no SSH algorithm in common"),
    (asyncssh.ProtocolNotSupported, "the response is not SSH version 2"),
    (asyncssh.ProtocolError, "the response does not follow the SSH protocol"),
    (asyncssh.ServiceNotAvailable, "the server does not offer to authenticate by a key"),
    (asyncssh.IllegalUserName, "the server does not accept the user name in the URL"),
    (asyncssh.ChannelOpenError, "the server refuses to run Git's command"),
    (asyncssh.Error, "the server ended the SSH connection"),
)


def cause(error: BaseException) -> str:
    """Return the reason in a few words."""
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return words
    return causes.cause(error, otherwise="the SSH connection failed")
