"""Requests to the API of a hosting service, and errors for its refusals.

No redirect and no page on another server is followed, because the token would be sent there.
Messages quote the service, without the token.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import aiohttp
from yarl import URL

from cli import errors
from toolkit import untrusted
from toolkit.objects import Json
from toolkit.remote import tls
from toolkit.remote.http import causes
from toolkit.remote.http.reach import Reach, connector

SECONDS: Final = 30.0
_MAX_ANSWER: Final = 8 << 20
_MAX_PAGES: Final = 100
_WORDS: Final = ("message", "error", "error_description", "errors")
_SHOWN: Final = 300
_REMEDIES: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "the token is wrong or has expired",
    HTTPStatus.FORBIDDEN: "the token lacks a right that this needs",
    HTTPStatus.NOT_FOUND: "it does not exist, or the token may not see it",
    HTTPStatus.MOVED_PERMANENTLY: "it has moved: use its new name",
    HTTPStatus.TEMPORARY_REDIRECT: "it has moved: use its new name",
    HTTPStatus.TOO_MANY_REQUESTS: "try again later",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The API of one service; ``headers`` have the credentials."""

    session: aiohttp.ClientSession
    title: str
    base: str
    token: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    async def find(self, path: str, *, doing: str) -> Json | None:
        """Return an object; None if it does not exist.

        Raises:
            FailedError: the service cannot be reached, or refuses.
        """
        status, answer, _ = await self._exchange("GET", self.base + path, None, doing)
        if status == HTTPStatus.NOT_FOUND:
            return None
        return _object(self._accepted(status, answer, doing))

    async def send(self, method: str, path: str, body: Json | None = None, *, doing: str) -> Json:
        """Send a request and return the object of the answer, empty if it has none.

        Raises:
            FailedError: the service cannot be reached, or refuses.
        """
        status, answer, _ = await self._exchange(method, self.base + path, body, doing)
        return _object(self._accepted(status, answer, doing))

    async def items(self, path: str, *, doing: str) -> list[Json]:
        """Return the items of all pages of a list, which ``Link`` headers connect (RFC 8288).

        Bitbucket's pages are objects with the start of the next page.

        Raises:
            FailedError: the service cannot be reached, refuses, or redirects to another server.
        """
        found: list[Json] = []
        url = self.base + path
        for _ in range(_MAX_PAGES):
            status, answer, following = await self._exchange("GET", url, None, doing)
            page = self._accepted(status, answer, doing)
            if isinstance(page, dict):
                following, page = _following(url, page), page.get("values")
            found += [item for item in page if isinstance(item, dict)] if page else []
            if following is None:
                return found
            if following.origin() != URL(self.base).origin():
                raise errors.FailedError(
                    f"{self.title} at '{self.base}' redirects to another server"
                )
            url = str(following)
        raise errors.FailedError(f"{self.title} at '{self.base}' lists more than can be read")

    async def _exchange(
        self, method: str, url: str, body: Json | None, doing: str
    ) -> tuple[int, Any, URL | None]:
        """Return the status, the decoded answer, and where the next page is."""
        try:
            async with self.session.request(
                method, url, json=body, headers=self.headers, allow_redirects=False
            ) as response:
                content = await response.content.read(_MAX_ANSWER)
                while len(content) < _MAX_ANSWER and (more := await response.content.readany()):
                    content += more
                following = response.links["next"].get("url") if "next" in response.links else None
                status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as exc:
            raise errors.FailedError(
                f"cannot {doing}: cannot reach {self.title} at '{self.base}': {causes.cause(exc)}"
            ) from exc
        return status, _decoded(content), URL(str(following)) if following else None

    def _accepted(self, status: int, answer: Any, doing: str) -> Any:
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return answer
        said = [_said(answer).replace(self.token, "…"), _REMEDIES.get(status, "")]
        why = ": ".join(filter(None, said))
        raise errors.FailedError(
            f"cannot {doing}: {self.title} at '{self.base}' answered with HTTP {status}: {why}"
        )


@asynccontextmanager
async def connected(
    title: str, base: str, token: str, headers: Mapping[str, str], *, ca: bytes
) -> AsyncIterator[Api]:
    """Yield the API of a service; its certificate is verified with ``ca``, or else the system."""
    async with aiohttp.ClientSession(
        connector=connector(Reach.NOT_METADATA, ssl=tls.client_context(ca or None)),
        timeout=aiohttp.ClientTimeout(total=SECONDS),
        trust_env=True,
    ) as session:
        yield Api(session=session, title=title, base=base, token=token, headers=headers)


def _decoded(content: bytes) -> Any:
    """Return an object or a list; None for other content, such as an HTML page."""
    kind: type[Any] = list if content.lstrip()[:1] == b"[" else dict
    try:
        return untrusted.load_json(content, kind, size=_MAX_ANSWER)
    except untrusted.UntrustedError:
        return None


def _following(url: str, page: Json) -> URL | None:
    """Return where the page after this one is."""
    start = page.get("nextPageStart")
    if page.get("isLastPage") is not False or not isinstance(start, int):
        return None
    return URL(url).update_query(start=str(start))


def _object(answer: Any) -> Json:
    return answer if isinstance(answer, dict) else {}


def _said(answer: Any) -> str:
    """Return the words of a refusal, as services nest them, in one line."""
    if not isinstance(answer, dict):
        return ""
    parts = [part for name in _WORDS for part in _words(answer.get(name))]
    return " ".join("; ".join(parts).split())[:_SHOWN]


def _words(value: Any) -> list[str]:
    """Return the texts of a message, a list of messages, or messages by the field they are about.

    GitHub has objects with a ``message`` in ``errors``, GitLab lists of messages by field.
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [word for item in value for word in _words(item)]
    if not isinstance(value, dict):
        return []
    if "message" in value:
        return _words(value["message"])
    return [f"{name} {word}" for name, item in value.items() for word in _words(item)]
