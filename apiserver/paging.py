"""Tokens for the pages of a list: the next position, and the version.

``apiserver/pkg/storage/continue.go``. A token is not signed: its position is used only within the
objects that the user may read.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from apiserver import status
from apiserver.status import StatusError

_LONGEST: Final = 2_048
"""Characters; namespace and name have 316 at most."""
_INCONSISTENT: Final = -1
_INT64: Final = (1 << 63) - 1
_FORMAT: Final = "meta.k8s.io/v1"
_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]+")
_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start"
    " a new list without the continue parameter, or use the continue token in this response to"
    " retrieve the remainder of the results. Continuing with the provided token results in an"
    " inconsistent list - objects that were created, modified, or deleted between the time the"
    " first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The start of a page; ``version`` is None if it need not agree with earlier pages."""

    version: int | None
    namespace: str
    name: str
    """The first name that may be in it."""


class _Token(msgspec.Struct):
    v: str = ""
    rv: Annotated[int, msgspec.Meta(le=_INT64)] = 0
    start: str = ""


def after(namespace: str, name: str, *, version: int) -> Page:
    """Return the page that starts behind an object (``PrepareContinueToken``)."""
    return Page(version=version, namespace=namespace, name=name + "\0")


def encode(page: Page) -> str:
    """Return the token of a page (``EncodeContinue``)."""
    version = _INCONSISTENT if page.version is None else page.version
    token = _Token(v=_FORMAT, rv=version, start=f"{page.namespace}/{page.name}")
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def decode(text: str) -> Page:
    """Read a token.

    Raises:
        StatusError: 400, this server did not issue the token.
    """
    if len(text) > _LONGEST or not _ALPHABET.fullmatch(text):
        raise _malformed("continue key is not valid")
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError, RecursionError) as exc:
        raise _malformed("continue key is not valid") from exc
    if token.v != _FORMAT:
        raise _malformed("continue key is not valid: server does not recognize this version")
    if token.rv == 0:
        raise _malformed(
            "continue key is not valid: incorrect encoded start resourceVersion"
            f" (version {_FORMAT})"
        )
    namespace, slash, name = token.start.partition("/")
    if not slash or not name:
        raise _malformed("continue key is not valid: encoded start key empty")
    return Page(version=token.rv if token.rv > 0 else None, namespace=namespace, name=name)


def expired(page: Page) -> StatusError:
    """Say that a page cannot agree with those before, and how to go on regardless.

    ``handleCompactedErrorForPaging`` of ``storage/etcd3/errors.go``.
    """
    again = Page(version=None, namespace=page.namespace, name=page.name)
    return StatusError(410, "Expired", _EXPIRED, next_page=encode(again))


def _malformed(why: str) -> StatusError:
    return status.bad_request(f"invalid continue token: {why}")
