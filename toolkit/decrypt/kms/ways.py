"""The sign-ins with which a key service may be asked for a document.

An entry of the Secret comes first, and alone (as in Flux). Without one it is the ServiceAccount.
This process itself signs in only if the operator allows it. Otherwise any author of a document
could decrypt whatever this process may decrypt.
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
    """What may be used for one document.

    ``logins`` are of the Secrets with keys. ``own`` is whether this process may sign in as itself.
    ``listed`` is whether a Vault must be one that the Secret names.
    """

    logins: tuple[Logins, ...] = field(default=(), repr=False)
    account: Identity | None = None
    own: bool = False
    listed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One sign-in; ``key`` is what tells it from every other."""

    key: tuple[str, ...] = field(repr=False)
    ask: Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyService:
    """One row of ``SERVICES``: ``entry`` is that of the Secret.

    ``ways`` raises ``DecryptionError`` for a recipient that nobody is to be asked about.
    ``accounts`` is whether a ServiceAccount can sign in.
    """

    ways: Callable[[Recipient, Access, Services], list[Way]]
    entry: str
    accounts: bool = True


class Login(Protocol):
    """An entry of a Secret (``logins``)."""

    @property
    def digest(self) -> str:
        """Return what tells it from others."""


L = TypeVar("L", bound=Login)


def over(
    access: Access,
    logins: Iterable[L | None],
    ask: Callable[[L | Identity | None], Awaitable[bytes]],
) -> list[Way]:
    """Return the ways to ask; ``None`` as who asks is this process."""
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
    """Return who asks, for a message."""
    if isinstance(who, Identity):
        return str(who)
    return "this process" if who is None else f"entry '{entry}' of the Secret"
