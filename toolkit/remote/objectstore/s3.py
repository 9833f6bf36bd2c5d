"""The S3 protocol of AWS and many other services.

The bucket is in the path, which every server but Alibaba's supports. Requests are signed with
Signature Version 4; the signature covers the body unless it is a file.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote_plus, urlsplit
from xml.etree.ElementTree import Element

from toolkit.remote.cloud.sigv4 import Keys, Signer
from toolkit.remote.objectstore import dialect, xml
from toolkit.remote.objectstore.dialect import PAGE, Ask, Page, Payload
from toolkit.remote.objectstore.errors import CredentialsError, PlaceError
from toolkit.remote.objectstore.http import Request
from toolkit.remote.objectstore.place import Anonymous, Direct, Object, Place, S3Keys

_DEFAULT_REGION: Final = "us-east-1"
_AWS: Final = (".amazonaws.com", ".amazonaws.com.cn")


class S3:
    """``Dialect`` of S3."""

    def __init__(self, place: Place) -> None:
        base = urlsplit(place.base)
        host, self._region = _aws(base.netloc, place.region)
        self._path = f"{base.path}/{place.bucket}"
        if host.endswith(".aliyuncs.com"):
            host, self._path = f"{place.bucket}.{host}", base.path
        # The Host header, which is signed, does not contain the default port of the scheme.
        host = host.removesuffix(":443" if base.scheme == "https" else ":80")
        self._origin = f"{base.scheme}://{host}"

    def listing(self, prefix: str, token: str) -> Ask:
        """Ask for a page (ListObjectsV2), with the keys encoded: XML cannot carry all of them."""
        query = {"list-type": "2", "encoding-type": "url", "max-keys": str(PAGE), "prefix": prefix}
        if token:
            query["continuation-token"] = token
        return Ask(method="GET", path=self._path or "/", query=query)

    def page(self, body: bytes) -> Page:
        """Read ListBucketResult."""
        root = xml.parse(body)
        if root.tag != "ListBucketResult":
            raise ValueError(root.tag)
        encoded = xml.text(root, "EncodingType") == "url"
        more = xml.text(root, "IsTruncated") == "true"
        token = xml.text(root, "NextContinuationToken")
        if more and not token:
            raise ValueError("a truncated page has no continuation token")
        return Page(
            objects=tuple(_object(entry, encoded=encoded) for entry in root.iterfind("Contents")),
            token=token if more else "",
        )

    def reading(self, key: str, expect: Object | None, span: tuple[int, int] | None) -> Ask:
        """Ask for the content (GetObject)."""
        return dialect.getting(self._key(key), expect, span)

    def answers(self, expect: Object, headers: Mapping[str, str]) -> bool:
        """Compare entity tags."""
        return dialect.same_tag(expect, headers)

    def looking(self, key: str) -> Ask:
        """Request the properties of an object (HeadObject)."""
        return Ask(method="HEAD", path=self._key(key))

    def seen(self, key: str, headers: Mapping[str, str], body: bytes) -> Object:
        """Read the headers."""
        del body
        return dialect.from_headers(key, headers)

    def writing(
        self, key: str, payload: Payload, if_match: Object | None, *, if_absent: bool
    ) -> Ask:
        """Write it in one piece (PutObject)."""
        return dialect.putting(self._key(key), payload, if_match, if_absent=if_absent)

    def deleting(self, key: str) -> Ask:
        """Delete it (DeleteObject)."""
        return Ask(method="DELETE", path=self._key(key))

    def signed(self, ask: Ask, credentials: Direct, now: datetime) -> Request:
        """Sign with keys; anonymous requests stay as they are."""
        url, headers = dialect.url(self._origin, ask.path, ask.query), dict(ask.headers)
        match credentials:
            case S3Keys():
                # A file is not read twice: its hash is not signed.
                body = None if isinstance(ask.body, Path) else ask.body or b""
                signer = Signer(keys=_keys(credentials), region=self._region, service="s3")
                headers = signer.headers(ask.method, url, now=now, headers=headers, body=body)
            case Anonymous():
                pass
            case _:
                raise CredentialsError("an S3 server needs an access key and a secret key")
        return Request(method=ask.method, url=url, headers=headers, body=ask.body)

    def _key(self, key: str) -> str:
        return f"{self._path}/{dialect.encode(key, safe='/')}"


def _keys(keys: S3Keys) -> Keys:
    return Keys(
        access_key=keys.access_key,
        secret_key=keys.secret_key,
        session_token=keys.session_token,
    )


def _aws(host: str, region: str) -> tuple[str, str]:
    """Return host and region; at AWS one follows from the other.

    Raises:
        PlaceError: the region would make the host that of another bucket (``b.s3.amazonaws.com``).
    """
    name = host.removesuffix(":443")
    suffix = next((suffix for suffix in _AWS if name.endswith(suffix)), None)
    if suffix is None or not name.startswith("s3"):
        return host, region or _DEFAULT_REGION
    if "." in region:
        raise PlaceError("spec.region is not the name of a region of AWS")
    labels = name.removesuffix(suffix).split(".")
    region = region or (labels[-1] if len(labels) > 1 else _DEFAULT_REGION)
    return (f"s3.{region}{suffix}" if labels == ["s3"] else host), region


def _object(entry: Element, *, encoded: bool) -> Object:
    key = xml.text(entry, "Key")
    return Object(
        key=unquote_plus(key, errors="strict") if encoded else key,
        etag=dialect.etag(xml.text(entry, "ETag")),
        size=int(xml.text(entry, "Size")),
        modified=dialect.moment(xml.text(entry, "LastModified")),
    )
