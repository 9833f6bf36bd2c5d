"""Send a request to the endpoint of hooks, again as long as the endpoint does not take it.

A path is unknown for a moment after the controller has started or the Receiver has changed, so 404
is one of the answers after which it is sent again, as ``flux trigger receiver`` does. A request
that was refused because of its content is not sent twice.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cli import errors, progress
from cli.triggering.proof import Request

if TYPE_CHECKING:
    from toolkit.remote.endpoint import Endpoint
    from toolkit.remote.http.http import Http

_SECONDS: Final = 30.0
_PASSING: Final = frozenset({0, 404, 408, 429, 500, 502, 503, 504})
"""Statuses after which it is worth trying again; 0 is no answer."""
_REMEDY: Final = "see --address, and docs/receivers.md for what a status means"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The number of retries, the delay between them, and the total timeout, in seconds."""

    retries: int
    delay: float
    timeout: float


async def send(name: str, address: str, request: Request, patience: Patience) -> None:
    """Send the request until it is taken.

    Raises:
        FailedError: it was not taken.
        DeadlineError: nor was it in time.
    """
    from toolkit.remote.errors import HttpError  # noqa: PLC0415
    from toolkit.remote.http import rules  # noqa: PLC0415 - the HTTP client, not for help
    from toolkit.remote.http.http import Http  # noqa: PLC0415

    try:
        rules.parsed(address)
    except HttpError as exc:
        raise errors.UsageError(f"--address: {exc}") from exc
    # The path is the secret of a generic Receiver.
    shown = f"{request.path[:14]}…"
    progress.action(f"sending a request to {address.rstrip('/')}{shown}")
    try:
        async with asyncio.timeout(patience.timeout), Http() as http:
            status = await _sent(http, address, request, patience)
    except HttpError as exc:
        raise errors.FailedError(
            f"the request was not accepted: {_told(exc, request)}: {_REMEDY}"
        ) from exc
    except TimeoutError as exc:
        raise errors.DeadlineError(
            f"the request was not accepted within {patience.timeout:g}s (--timeout): {_REMEDY}"
        ) from exc
    if status >= 300:
        raise errors.FailedError(
            f"the request was redirected with HTTP {status}: correct --address"
        )
    progress.success(f"Receiver {name} took the request")


async def _sent(http: "Http", address: str, request: Request, patience: Patience) -> int:
    """Return the status of the first answer that is final."""
    from toolkit.remote.endpoint import Endpoint  # noqa: PLC0415
    from toolkit.remote.errors import AuthError, HttpError  # noqa: PLC0415 - as in `send`

    for attempt in range(1, patience.retries + 1):
        try:
            return await _once(http, address, request, Endpoint(plain_http=True))
        except HttpError as exc:
            if isinstance(exc, AuthError) or exc.status not in _PASSING:
                raise
            progress.waiting(
                f"{_told(exc, request)}; trying again in {patience.delay:g} s "
                f"({attempt} of {patience.retries})"
            )
        await asyncio.sleep(patience.delay)
    return await _once(http, address, request, Endpoint(plain_http=True))


async def _once(http: "Http", address: str, request: Request, endpoint: "Endpoint") -> int:
    async with http.request(
        "POST",
        f"{address.rstrip('/')}{request.path}",
        endpoint=endpoint,
        headers=request.headers,
        body=request.body,
        timeout=_SECONDS,
    ) as response:
        return response.status


def _told(error: Exception, request: Request) -> str:
    return str(error).replace(request.path, f"{request.path[:14]}…")
