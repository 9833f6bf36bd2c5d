"""Requests to a registry with one identity: authentication, deadlines, and errors.

Only a challenge of the registry itself counts, not that of a server to which it redirected.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp

from toolkit.remote import webaddress
from toolkit.remote.http.http import AuthError, Endpoint, Http, HttpError
from toolkit.remote.oci.errors import RegistryAuthError, RegistryError, RegistryNotFoundError
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.tokens import Tokens


class Exchange:
    """Sends requests; see ``registry.Registry`` for the parts."""

    def __init__(self, client: Http, endpoint: Endpoint, *, tokens: Tokens, timeout: float) -> None:
        self._http = client
        self._endpoint = endpoint
        self._tokens = tokens
        self._timeout = timeout

    @asynccontextmanager
    async def ask(  # noqa: PLR0913  # the parts of a request
        self,
        method: str,
        repository: Repository,
        path: str,
        *,
        accept: str = "*/*",
        body: bytes | Path | None = None,
        media_type: str = "",
        known: str = "",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and authenticate if needed; ``path`` may be a whole URL.

        ``known`` is the entity tag of the caller's copy: the answer is 304 if it is current.
        """
        headers = {"Accept": accept} | ({"Content-Type": media_type} if media_type else {})
        headers |= {"If-None-Match": known} if known else {}
        base, url = self._base(repository), self.url(repository, path)
        for _ in range(_SIGN_INS):
            used = await self._tokens.endpoint(
                self._http, base, repository, self._endpoint, seconds=self._timeout
            )
            async with AsyncExitStack() as stack:
                request = self._http.request(
                    method, url, endpoint=used, headers=headers, body=body, timeout=self._timeout
                )
                try:
                    answer = await stack.enter_async_context(request)
                except AuthError as exc:
                    if not await self._challenged(repository, used, exc):
                        raise
                    continue
                self._tokens.accepted(base, repository, self._endpoint)
                yield answer
                return
        raise AuthError(f"'{base}' refuses every token that it is shown")

    async def _challenged(self, repository: Repository, used: Endpoint, error: AuthError) -> bool:
        """Tell whether to repeat the request with the credentials for a challenge."""
        base = self._base(repository)
        if error.status != 401 or error.origin != str(webaddress.read(base).origin()):
            return False
        return await self._tokens.challenged(
            base, repository, self._endpoint, used=used, challenges=error.challenges
        )

    def _base(self, repository: Repository) -> str:
        return f"{'http' if self._endpoint.plain_http else 'https'}://{repository.host}"

    def url(self, repository: Repository, path: str) -> str:
        """Return the URL of a path in a repository; a complete URL stays unchanged."""
        if path.startswith(("https://", "http://")):
            return path
        return f"{self._base(repository)}/v2/{repository.name}/{path}"

    @asynccontextmanager
    async def working(self, what: str, *, doing: str = "get") -> AsyncIterator[None]:
        """Limit the time of a call, and add its subject to errors."""
        try:
            async with asyncio.timeout(self._timeout):
                yield
        except TimeoutError as exc:
            raise RegistryError(f"cannot {doing} {what}: no response in time") from exc
        except AuthError as exc:
            raise RegistryAuthError(f"cannot {doing} {what}: {exc}", status=exc.status) from exc
        except HttpError as exc:
            if exc.status == 404:
                raise RegistryNotFoundError(f"{what} not found", status=404) from exc
            raise RegistryError(f"cannot {doing} {what}: {exc}", status=exc.status) from exc
        except RegistryError as exc:
            raise type(exc)(f"cannot {doing} {what}: {exc}", status=exc.status) from exc


_SIGN_INS: Final = 3
