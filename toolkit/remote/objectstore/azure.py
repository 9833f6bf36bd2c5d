"""Azure Blob Storage: a container of an account, with the Blob service's REST API.

Shared keys sign requests as described in "Authorize with Shared Key". A shared access signature is
a query string of every request. Applications and identities use a token.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import datetime
from email.utils import format_datetime
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree.ElementTree import Element

from toolkit.remote.objectstore import dialect, xml
from toolkit.remote.objectstore.dialect import PAGE, Ask, Page, Payload
from toolkit.remote.objectstore.errors import CredentialsError
from toolkit.remote.objectstore.http import Request
from toolkit.remote.objectstore.place import (
    Anonymous,
    AzureKey,
    AzureSas,
    BearerToken,
    Direct,
    Object,
    Place,
)

_VERSION: Final = "2023-11-03"
_SIGNED: Final = (
    *("Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type"),
    *("Date", "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"),
)


class Azure:
    """``Dialect`` of Azure Blob Storage."""

    def __init__(self, place: Place) -> None:
        base = urlsplit(place.base)
        self._origin = f"{base.scheme}://{base.netloc}"
        self._account = _account(base.hostname or "", base.path)
        self._path = f"{base.path}/{place.bucket}"

    def listing(self, prefix: str, token: str) -> Ask:
        """Ask for a page (List Blobs)."""
        query = {"restype": "container", "comp": "list", "maxresults": str(PAGE)}
        if prefix:
            query["prefix"] = prefix
        if token:
            query["marker"] = token
        return Ask(method="GET", path=self._path, query=query)

    def page(self, body: bytes) -> Page:
        """Read EnumerationResults."""
        root = xml.parse(body.removeprefix(b"\xef\xbb\xbf"))
        if root.tag != "EnumerationResults":
            raise ValueError(root.tag)
        blobs = [blob for blob in root.iterfind("Blobs/Blob") if not _is_directory(blob)]
        return Page(objects=tuple(map(_object, blobs)), token=xml.text(root, "NextMarker"))

    def reading(self, key: str, expect: Object | None, span: tuple[int, int] | None) -> Ask:
        """Ask for the content (Get Blob)."""
        return dialect.getting(self._key(key), expect, span)

    def answers(self, expect: Object, headers: Mapping[str, str]) -> bool:
        """Compare entity tags."""
        return dialect.same_tag(expect, headers)

    def looking(self, key: str) -> Ask:
        """Request the properties of an object (Get Blob Properties)."""
        return Ask(method="HEAD", path=self._key(key))

    def seen(self, key: str, headers: Mapping[str, str], body: bytes) -> Object:
        """Read the headers."""
        del body
        return dialect.from_headers(key, headers)

    def writing(
        self, key: str, payload: Payload, if_match: Object | None, *, if_absent: bool
    ) -> Ask:
        """Write it in one piece (Put Blob)."""
        more = {"x-ms-blob-type": "BlockBlob"}
        return dialect.putting(self._key(key), payload, if_match, if_absent=if_absent, more=more)

    def deleting(self, key: str) -> Ask:
        """Delete it (Delete Blob)."""
        return Ask(method="DELETE", path=self._key(key))

    def signed(self, ask: Ask, credentials: Direct, now: datetime) -> Request:
        """Sign with the account's key, add a shared access signature, or show a token."""
        query = dict(ask.query)
        headers = {
            **ask.headers,
            "x-ms-version": _VERSION,
            "x-ms-date": format_datetime(now, usegmt=True),
        }
        match credentials:
            case AzureKey(key=key):
                headers["Authorization"] = self._shared_key(ask, headers, key)
            case AzureSas(token=token):
                query = dict(parse_qsl(token.removeprefix("?"), keep_blank_values=True)) | query
            case BearerToken(token=token):
                headers["Authorization"] = f"Bearer {token}"
            case Anonymous():
                pass
            case _:
                raise CredentialsError("Azure Blob Storage cannot use keys of S3")
        url = dialect.url(self._origin, ask.path, query)
        return Request(method=ask.method, url=url, headers=headers, body=ask.body)

    def _shared_key(self, ask: Ask, headers: Mapping[str, str], key: str) -> str:
        try:
            secret = b64decode(key, validate=True)
        except ValueError as exc:
            raise CredentialsError("'accountKey' in the secret is not base64") from exc
        if not self._account:
            raise CredentialsError("the endpoint does not name the account that 'accountKey' is of")
        standard = [headers.get(name, "") for name in _SIGNED]
        standard[2] = "" if standard[2] == "0" else standard[2]
        own = sorted(name for name in headers if name.startswith("x-ms-"))
        lines = [ask.method, *standard, *(f"{name}:{headers[name]}" for name in own)]
        lines.append(f"/{self._account}{ask.path}")
        lines.extend(f"{name}:{value}" for name, value in sorted(ask.query.items()))
        signature = hmac.digest(secret, "\n".join(lines).encode(), "sha256")
        return f"SharedKey {self._account}:{b64encode(signature).decode()}"

    def _key(self, key: str) -> str:
        return f"{self._path}/{dialect.encode(key, safe='/')}"


def _account(host: str, path: str) -> str:
    """Return the account: the first label of the host, or of the path where the host has none."""
    try:
        ip_address(host)
    except ValueError:
        if host != "localhost":
            return host.partition(".")[0]
    return path.strip("/").partition("/")[0]


def _is_directory(blob: Element) -> bool:
    """Tell whether it is a directory of a hierarchical account, which is listed like a blob."""
    return blob.findtext("Properties/ResourceType") == "directory"


def _object(blob: Element) -> Object:
    name, properties = blob.find("Name"), blob.find("Properties")
    if name is None or properties is None:
        raise ValueError("a blob has neither name nor properties")
    key = name.text or ""
    return Object(
        key=unquote(key, errors="strict") if name.get("Encoded") == "true" else key,
        etag=dialect.etag(xml.text(properties, "Etag")),
        size=int(xml.text(properties, "Content-Length")),
    )
