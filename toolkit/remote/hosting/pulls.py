"""The pull request of a repository between two branches: open, update and close it.

A pull request from another repository is never changed, even if its branch has the same name,
because any user may open one. Answers are parsed within bounds. The token is sent only to the API
of the repository's own host; it does not follow redirects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from toolkit import untrusted
from toolkit.errors import StalledError, TransientError
from toolkit.objects import Json
from toolkit.remote.git.auth import GitAuth
from toolkit.remote.git.url import GitUrl
from toolkit.remote.hosting.services import SERVICES, Branches, Service
from toolkit.remote.http.http import Endpoint, Http, HttpError, read

REASON: Final = "PullRequestFailed"
_MAX_ANSWER: Final = 8 << 20
_MAX_PAGES: Final = 20


class PullRequestError(TransientError):
    """The service cannot be asked, or refuses."""

    default_reason = REASON


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Title and body of a pull request, in Markdown."""

    title: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulls:
    """The pull requests between two branches of a repository."""

    http: Http
    service: Service
    branches: Branches
    url: str
    endpoint: Endpoint
    timeout: float

    @classmethod
    def of(  # noqa: PLR0913 - the parts of a request
        cls, http: Http, name: str, url: str, auth: GitAuth, *, head: str, base: str, timeout: float
    ) -> "Pulls":
        """Return the pull requests of the repository at ``url`` of the service ``name``.

        Raises:
            StalledError: the service is not supported, or the URL is not one of its repositories.
        """
        service = SERVICES.get(name)
        if service is None:
            raise StalledError(
                f"'{name}' is not a hosting service: write one of {', '.join(SERVICES)}"
            )
        place = GitUrl.parse(url)
        token = auth.bearer_token or auth.password
        if place.scheme != "https" or not token:
            raise StalledError(
                "pull requests need a repository over https and a Secret with a token that may open"
                " them, as password or bearerToken"
            )
        repository = place.path.partition("?")[0].strip("/").removesuffix(".git")
        host = place.host if place.port == _HTTPS else f"{place.host}:{place.port}"
        endpoint = Endpoint(
            bearer_token=token,
            ca=auth.ca,
            client_cert=auth.client_cert,
            client_key=auth.client_key,
            proxy=auth.proxy,
        )
        return cls(
            http=http,
            service=service,
            branches=Branches(repository=repository, head=head, base=base),
            url=service.base(host) + service.pulls(repository),
            endpoint=endpoint,
            timeout=timeout,
        )

    async def put(self, text: Text) -> tuple[int, bool]:
        """Have a pull request with this text; return its number, and whether it is a new one.

        Raises:
            PullRequestError: the service cannot be asked, or refuses.
        """
        found = await self._open()
        written = {"title": text.title, self.service.body: text.body}
        if found is None:
            opening = {**self.service.opening(self.branches), **written}
            answer = await self._ask("POST", self.url, opening)
            return self._number(answer), True
        number = self._number(found)
        if any(found.get(key) != value for key, value in written.items()):
            await self._ask(self.service.editing, f"{self.url}/{number}", written)
        return number, False

    async def close(self) -> int:
        """Close the open pull request, and return its number; 0 if there is none.

        Raises:
            PullRequestError: the service cannot be reached, or refuses.
        """
        found = await self._open()
        if found is None:
            return 0
        number = self._number(found)
        await self._ask(self.service.editing, f"{self.url}/{number}", self.service.closing)
        return number

    async def _open(self) -> Json | None:
        for page in range(1, _MAX_PAGES + 1):
            query = {**self.service.query(self.branches), "page": str(page)}
            listed = await self._ask("GET", f"{self.url}?{urlencode(query)}")
            entries = [each for each in listed if isinstance(each, dict)] if listed else []
            for entry in entries:
                if self.service.is_ours(entry, self.branches):
                    return entry
            if not entries:
                return None
        raise PullRequestError(f"'{self.url}' lists more pull requests than can be read")

    async def _ask(self, method: str, url: str, body: Json | None = None) -> Any:
        headers: Mapping[str, str] = {"Accept": "application/json"}
        sent = None
        if body is not None:
            sent = msgspec.json.encode(body)
            headers = {**headers, "Content-Type": "application/json"}
        try:
            async with self.http.request(
                method,
                url,
                endpoint=self.endpoint,
                headers=headers,
                body=sent,
                timeout=self.timeout,
            ) as response:
                if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                    raise PullRequestError(
                        f"'{self.url}' redirects with HTTP {response.status}: correct spec.url of "
                        "the GitRepository"
                    )
                content = await read(response, limit=_MAX_ANSWER)
        except HttpError as exc:
            raise PullRequestError(f"{exc}{_remedy(exc)}") from exc
        try:
            kind: type[Any] = list if method == "GET" else dict
            return untrusted.load_json(content, kind, size=_MAX_ANSWER)
        except untrusted.UntrustedError as exc:
            raise PullRequestError(
                f"'{self.url}' sent an answer that is not of its API: {exc}"
            ) from exc

    def _number(self, entry: Json) -> int:
        number = entry.get(self.service.number)
        if not isinstance(number, int) or number < 1:
            raise PullRequestError(f"'{self.url}' sent no number of the pull request")
        return number


_HTTPS: Final = 443
_REMEDIES: Final[Mapping[int, str]] = {
    401: "the token is wrong or has expired",
    403: "the token lacks the right to open pull requests",
    404: "the repository does not exist, or the token may not see it",
    422: "the service does not accept the pull request",
}


def _remedy(error: HttpError) -> str:
    if error.retry_after is not None:
        return ": the service limits requests, and is asked again later"
    remedy = _REMEDIES.get(error.status, "")
    return f": {remedy}" if remedy else ""
