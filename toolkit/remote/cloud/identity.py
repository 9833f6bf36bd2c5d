"""Identities at cloud providers, and credentials: values without IO.

Secrets never show in a ``repr``. Times are in UTC.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


class TokenSource(Protocol):
    """Returns a token that proves the identity of an account."""

    async def __call__(self, *audiences: str) -> str:
        """Return a JWT for these audiences, which lives for some minutes at least."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A ServiceAccount as the identity of an object; elsewhere None means this process.

    The ``uid`` distinguishes it from an earlier one with the same name; ``annotations`` name its
    identities at clouds.
    """

    namespace: str
    name: str
    uid: str
    annotations: Mapping[str, str]
    token: TokenSource = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"ServiceAccount '{self.namespace}/{self.name}'"

    @property
    def key(self) -> tuple[str, ...]:
        """Return the cache key of its credentials, which changes with its annotations."""
        said = repr(sorted(self.annotations.items())).encode()
        return self.namespace, self.name, self.uid, hashlib.sha256(said).hexdigest()


def key_of(who: Identity | None) -> tuple[str, ...]:
    """Return the cache key of credentials; it is empty for this process."""
    return who.key if who else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A user name and a password, for a registry or a Git server.

    ``origin`` is the credential from which it was derived, if that one is cached.
    """

    username: str
    password: str = field(repr=False)
    expires_at: datetime
    origin: "Bearer | SessionKeys | None" = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """A token for the ``Authorization`` header (RFC 6750)."""

    token: str = field(repr=False)
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKeys:
    """AWS keys of a session; ``session_token`` is empty for keys that belong to a user."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlace:
    """The address of a bucket in ``spec``; ``sts`` is the service that issues keys for tokens."""

    endpoint: str
    region: str = ""
    sts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterName:
    """The cluster in the ConfigMap of ``spec.kubeConfig.configMapRef``.

    ``cluster`` is its name at the cloud provider. ``address`` chooses among its endpoints, ``ca``
    (PEM) replaces its authority.
    """

    cluster: str
    address: str = ""
    ca: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The address and the CA of a cluster's API server, and a token for it."""

    server: str
    ca: bytes | None = field(repr=False)
    token: str = field(repr=False)
    expires_at: datetime


def host_of(address: str) -> str:
    """Return host and port in lower case, from a URL or a host."""
    return address.partition("://")[2].partition("/")[0].lower() or address.lower()
