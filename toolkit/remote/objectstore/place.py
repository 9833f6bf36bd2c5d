"""The address of a bucket, credentials, and the properties of an object: values, no IO.

Nothing here or below uses the process's environment: a tenant's bucket must not be read with the
identity of this process. A caller that wants an identity passes it as ``Provided``.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

from toolkit.remote.objectstore.errors import PlaceError
from toolkit.remote.proxy import Proxy

Provider = Literal["generic", "aws", "gcp", "azure"]


@dataclass(frozen=True, slots=True)
class Anonymous:
    """Ask without proving anything, for public buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Keys:
    """Keys that sign requests to an S3 server (AWS Signature Version 4)."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LdapIdentity:
    """A directory user for MinIO's token service (``AssumeRoleWithLDAPIdentity``)."""

    endpoint: str
    username: str
    password: str = field(repr=False)
    ca: bytes | None = field(default=None, repr=False)
    client_cert: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GcsServiceAccount:
    """A Google service account's key file (JSON), which buys access tokens."""

    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    """An OAuth access token, for Google and Azure."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureKey:
    """The shared key of a storage account, in base64; the account's name is in the endpoint."""

    key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureSas:
    """A shared access signature: the query string that the portal shows."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureClient:
    """An application that proves itself to Entra ID with a secret or a certificate (PEM)."""

    tenant_id: str
    client_id: str
    secret: str | None = field(default=None, repr=False)
    certificate: bytes | None = field(default=None, repr=False)
    certificate_password: bytes | None = field(default=None, repr=False)
    send_chain: bool = False
    authority_host: str = "https://login.microsoftonline.com"


Direct: TypeAlias = Anonymous | S3Keys | BearerToken | AzureKey | AzureSas
"""Credentials that can sign a request."""

Exchanged: TypeAlias = LdapIdentity | GcsServiceAccount | AzureClient
"""Credentials that must be exchanged first for temporary ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provided:
    """Credentials that the caller keeps fresh; called before every request, so it must cache."""

    get: Callable[[], Awaitable[Direct]] = field(repr=False)


Credentials: TypeAlias = Direct | Exchanged | Provided


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A bucket (at Azure: a container) and how to get to it; certificates and keys are PEM.

    ``endpoint`` is a host, with a port if need be, or a URL; at Azure it is the account's URL.
    ``plain_http`` permits a server without TLS.
    """

    provider: Provider
    endpoint: str
    bucket: str
    region: str = ""
    credentials: Credentials = field(default_factory=Anonymous)
    plain_http: bool = False
    ca: bytes | None = field(default=None, repr=False)
    client_cert: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)
    proxy: Proxy | None = None

    @property
    def base(self) -> str:
        """Return the URL of the server, without a slash at its end.

        Raises:
            PlaceError: the endpoint, the region or the bucket's name is not one.
        """
        if not _BUCKET.fullmatch(self.bucket):
            raise PlaceError(
                f"'{self.bucket[:100]}' is not a bucket's name", reason="BucketOperationFailed"
            )
        if not _REGION.fullmatch(self.region):
            raise PlaceError("spec.region is not the name of a region")
        parts = split(self.endpoint, default="http" if self.plain_http else "https")
        if parts.scheme == "http" and not self.plain_http:
            raise PlaceError("the endpoint is plain HTTP, and insecure is not set")
        if parts.path.strip("/") and (parts.hostname or "").endswith(_CLOUDS):
            raise PlaceError(
                f"the endpoint must not have a path: at '{parts.hostname}' the bucket is named by "
                "spec.bucketName alone"
            )
        return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"

    @property
    def host(self) -> str:
        """Return the server's host and port, for messages."""
        return split(self.endpoint, default="https").netloc


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """The properties of an object; ``version`` is a Google generation."""

    key: str
    etag: str
    size: int
    modified: datetime | None = None
    version: str = ""


_BUCKET: Final = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{0,221}")
_REGION: Final = re.compile(r"[A-Za-z0-9._-]{0,64}")
_CLOUDS: Final = (
    *(".amazonaws.com", ".amazonaws.com.cn", ".aliyuncs.com", ".googleapis.com"),
    *(".core.windows.net", ".core.chinacloudapi.cn", ".core.usgovcloudapi.net"),
)
"""Services that have no bucket below a path; some of them name the bucket in the host."""
_HOST: Final = re.compile(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]")


def split(endpoint: str, *, default: str) -> SplitResult:
    """Take an endpoint apart; user information, query and fragment have no place in one.

    Raises:
        PlaceError: it is neither a host nor a URL.
    """
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"{default}://{endpoint}")
        port = parts.port
    except ValueError as exc:
        raise PlaceError("the endpoint is not a host or a URL") from exc
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host) or port == 0:
        raise PlaceError("the endpoint is not a host or a URL with https:// or http://")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise PlaceError("the endpoint must have neither user information nor a query")
    return parts
