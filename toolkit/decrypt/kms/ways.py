"""The identities with which a key service may be called for a document.

If the Secret has an entry for the service, only this entry is used (as in Flux). Otherwise it is
the ServiceAccount. The identity of this process is only used if the operator allows it. Otherwise
any author of a document could decrypt everything that this process may decrypt.
"""

import functools
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from toolkit.decrypt.keys import Recipient
from toolkit.decrypt.kms.logins import Logins
from toolkit.remote.cloud.identity import Identity
from toolkit.remote.cloud.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The identities that may be used for one document.

    - ``logins`` are those of the Secrets with keys.
    - ``own`` allows the identity of this process.
    - ``listed`` requires that the Secret lists the address of a Vault.
    """

    logins: tuple[Logins, ...] = field(default=(), repr=False)
    account: Identity | None = None
    own: bool = False
    listed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One identity with its call; ``key`` distinguishes it from all others."""

    key: tuple[str, ...] = field(repr=False)
    ask: Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyService:
    """One row of ``SERVICES``: ``entry`` is the name of the Secret's entry.

    ``ways`` raises ``DecryptionError`` for a recipient that must not be called. ``accounts`` tells
    whether a ServiceAccount can authenticate.
    """

    ways: Callable[[Recipient, Access, Services], list[Way]]
    entry: str
    accounts: bool = True


class Login(Protocol):
    """An entry of a Secret (``logins``)."""

    @property
    def digest(self) -> str:
        """Return a digest of the identity."""


L = TypeVar("L", bound=Login)


def over(
    access: Access,
    logins: Iterable[L | None],
    ask: Callable[[L | Identity | None], Awaitable[bytes]],
) -> list[Way]:
    """Return the ways to call; None as identity is this process."""
    held = [login for login in logins if login is not None]
    if held:
        return [
            Way(key=("secret", login.digest), ask=functools.partial(ask, login)) for login in held
        ]
    if access.account is not None:
        who = access.account
        return [Way(key=("account", *who.key), ask=functools.partial(ask, who))]
    return [Way(key=("own",), ask=functools.partial(ask, None))] if access.own else []


def shown(who: Login | Identity | None, entry: str) -> str:
    """Return the identity for a message."""
    if isinstance(who, Identity):
        return str(who)
    return "this process" if who is None else f"entry '{entry}' of the Secret"
