"""Who asks a cloud, and what it gives: values that pass between clusters, clouds and sources.

Secrets never show in a ``repr``. Times are in UTC.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


class TokenSource(Protocol):
    """Gets a token that says who an account is."""

    async def __call__(self, *audiences: str) -> str:
        """Return a JWT for these audiences, which lives for some minutes at least."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A ServiceAccount, as which an object wants to be seen; ``None`` elsewhere is this process.

    The ``uid`` tells it from one of the same name before it; ``annotations`` name what it is at
    each cloud.
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
        """Return what its credentials are kept by: they change when its annotations do."""
        said = repr(sorted(self.annotations.items())).encode()
        return self.namespace, self.name, self.uid, hashlib.sha256(said).hexdigest()


def key_of(who: Identity | None) -> tuple[str, ...]:
    """Return what credentials are kept by; those of this process have the empty key."""
    return who.key if who else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A user name and a password, for a registry or a Git server.

    ``origin`` is what it was made of, where that is what is kept.
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
    """Where a bucket is, as ``spec`` says; ``sts`` is who changes tokens for keys there."""

    endpoint: str
    region: str = ""
    sts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterName:
    """Which cluster is meant, as the ConfigMap of ``spec.kubeConfig.configMapRef`` says.

    ``cluster`` is the cloud's name of it. ``address`` chooses among its endpoints, ``ca`` (PEM)
    replaces the authority that the cloud names.
    """

    cluster: str
    address: str = ""
    ca: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Where a cluster's API server is, whom to trust there, and the token to enter with."""

    server: str
    ca: bytes | None = field(repr=False)
    token: str = field(repr=False)
    expires_at: datetime


def host_of(address: str) -> str:
    """Return host and port in lower case, of a URL or of what is that already."""
    return address.partition("://")[2].partition("/")[0].lower() or address.lower()
