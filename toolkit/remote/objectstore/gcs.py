"""Google Cloud Storage with its JSON API, whose entity tags are those in Flux's revisions.

The generation of an object distinguishes it from its successor; conditions of writes use it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

import msgspec

from toolkit import untrusted
from toolkit.remote.objectstore import dialect
from toolkit.remote.objectstore.dialect import PAGE, Ask, Page, Payload
from toolkit.remote.objectstore.errors import CredentialsError
from toolkit.remote.objectstore.http import MAX_ANSWER, Request
from toolkit.remote.objectstore.place import Anonymous, BearerToken, Direct, Object, Place

_FIELDS: Final = "name,etag,size,updated,generation"


class _Item(msgspec.Struct):
    name: str
    etag: str = ""
    size: str = "0"
    updated: str = ""
    generation: str = ""


class _Listing(msgspec.Struct, rename="camel"):
    items: list[_Item] = msgspec.field(default_factory=list)
    next_page_token: str = ""


class Gcs:
    """``Dialect`` of Google Cloud Storage."""

    def __init__(self, place: Place) -> None:
        base = urlsplit(place.base)
        self._origin = f"{base.scheme}://{base.netloc}"
        self._objects = f"{base.path}/storage/v1/b/{place.bucket}/o"
        self._uploads = f"{base.path}/upload/storage/v1/b/{place.bucket}/o"

    def listing(self, prefix: str, token: str) -> Ask:
        """Ask for a page (objects.list)."""
        query = {"maxResults": str(PAGE), "fields": f"items({_FIELDS}),nextPageToken"}
        if prefix:
            query["prefix"] = prefix
        if token:
            query["pageToken"] = token
        return Ask(method="GET", path=self._objects, query=query)

    def page(self, body: bytes) -> Page:
        """Read ``storage#objects``."""
        listing = untrusted.load_json(body, _Listing, size=MAX_ANSWER)
        return Page(objects=tuple(map(_object, listing.items)), token=listing.next_page_token)

    def reading(self, key: str, expect: Object | None, span: tuple[int, int] | None) -> Ask:
        """Ask for the content (objects.get with ``alt=media``)."""
        query = {"alt": "media"}
        if expect:
            query["generation"] = expect.version
        # The server would decompress compressed objects if the client did not accept gzip.
        headers = {"Accept-Encoding": "gzip", **dialect.span_header(span)}
        return Ask(method="GET", path=self._key(key), query=query, headers=headers)

    def answers(self, expect: Object, headers: Mapping[str, str]) -> bool:
        """Compare generations."""
        return headers.get("x-goog-generation", "") == expect.version

    def looking(self, key: str) -> Ask:
        """Request the properties of an object (objects.get)."""
        return Ask(method="GET", path=self._key(key), query={"fields": _FIELDS})

    def seen(self, key: str, headers: Mapping[str, str], body: bytes) -> Object:
        """Read ``storage#object``."""
        del key, headers
        return _object(untrusted.load_json(body, _Item, size=MAX_ANSWER))

    def writing(
        self, key: str, payload: Payload, if_match: Object | None, *, if_absent: bool
    ) -> Ask:
        """Write it in one piece (objects.insert)."""
        query = {"uploadType": "media", "name": key, "fields": _FIELDS}
        if if_absent or if_match:
            query["ifGenerationMatch"] = if_match.version if if_match else "0"
        return dialect.putting(self._uploads, payload, method="POST", query=query)

    def deleting(self, key: str) -> Ask:
        """Delete it (objects.delete)."""
        return Ask(method="DELETE", path=self._key(key))

    def signed(self, ask: Ask, credentials: Direct, now: datetime) -> Request:
        """Show the access token."""
        del now
        headers = dict(ask.headers)
        match credentials:
            case BearerToken(token=token):
                headers["Authorization"] = f"Bearer {token}"
            case Anonymous():
                pass
            case _:
                raise CredentialsError("Google Cloud Storage needs a service account or a token")
        url = dialect.url(self._origin, ask.path, ask.query)
        return Request(method=ask.method, url=url, headers=headers, body=ask.body)

    def _key(self, key: str) -> str:
        return f"{self._objects}/{dialect.encode(key)}"


def _object(item: _Item) -> Object:
    return Object(
        key=item.name,
        etag=dialect.etag(item.etag),
        size=int(item.size),
        modified=dialect.moment(item.updated),
        version=item.generation,
    )
