"""Refuse requests that no correct client sends, before other code reads them.

These are invalid text, bodies of unlimited size, and parameters that authorization and the handler
could interpret differently.
"""

from typing import Final

from aiohttp import web

from apiserver import status
from apiserver.status import StatusError
from crds.meta import parse_duration

MAX_BODY: Final = 64 << 10
"""Bytes; next to nothing is sent to us."""
_SINGLE: Final = (
    *("watch", "fieldSelector", "labelSelector", "resourceVersion", "resourceVersionMatch"),
    *("limit", "continue", "timeout", "timeoutSeconds", "sendInitialEvents"),
    *("fieldValidation", "includeObject", "revision", "from", "path"),
)
"""If they are repeated, authorization and the handler could use different values."""


def check(request: web.Request) -> None:
    """Refuse requests that no correct client sends.

    Raises:
        StatusError: 400 or 413.
    """
    if not request.raw_path.isascii() or not _is_text(request.path):
        raise status.bad_request("the path holds something that is not text")
    if any(not _is_text(value) for value in request.query.values()):
        raise status.bad_request("the query holds something that is not text")
    if (request.content_length or 0) > MAX_BODY:
        raise StatusError(
            413, "RequestEntityTooLarge", f"the request is larger than {MAX_BODY >> 10} KiB"
        )
    for name in _SINGLE:
        if len(request.query.getall(name, ())) > 1:
            raise status.bad_request(f"the parameter {name} is given more than once")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def limit(request: web.Request, *, longest: float | None) -> float | None:
    """Return the deadline of the answer in seconds (``WithRequestDeadline``).

    Raises:
        StatusError: 400, ``?timeout=`` is not a duration.
    """
    told = request.query.get("timeout", "")
    if longest is None or not told:
        return longest
    try:
        seconds = parse_duration(told)
    except ValueError as exc:
        raise status.bad_request(f"invalid timeout specified in the request URL - {exc}") from exc
    return seconds if 0 < seconds < longest else longest
