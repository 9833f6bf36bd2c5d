"""Requests to a registry, as one identity: signing in, deadlines, and errors that say what failed.

A challenge counts only if the registry itself made it, not where it redirected us to.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
from yarl import URL

from toolkit.remote.http.http import AuthError, Endpoint, Http, HttpError
from toolkit.remote.oci.errors import RegistryAuthError, RegistryError, RegistryNotFoundError
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.tokens import Tokens


class Exchange:
    """Sends requests; see ``registry.Registry`` for what the parts mean."""

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
        """Send a request, signing in where that is demanded; ``path`` may be a whole URL.

        ``known`` is the entity tag of what the caller has: the answer is 304 if that is current.
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
        """Tell whether to ask again with what a challenge asks for."""
        base = self._base(repository)
        if error.status != 401 or error.origin != str(URL(base).origin()):
            return False
        return await self._tokens.challenged(
            base, repository, self._endpoint, used=used, challenges=error.challenges
        )

    def _base(self, repository: Repository) -> str:
        return f"{'http' if self._endpoint.plain_http else 'https'}://{repository.host}"

    def url(self, repository: Repository, path: str) -> str:
        """Return the URL of something in a repository; one that is complete stays as it is."""
        if path.startswith(("https://", "http://")):
            return path
        return f"{self._base(repository)}/v2/{repository.name}/{path}"

    @asynccontextmanager
    async def working(self, what: str, *, doing: str = "get") -> AsyncIterator[None]:
        """Bound a call in time, and tell what it was about when it fails."""
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
