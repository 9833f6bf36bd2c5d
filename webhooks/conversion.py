"""Answer ``apiextensions.k8s.io/v1 ConversionReview``: objects from one version to another.

It is in the path of every read and write in an old version, so it does no IO and knows only the
request. A review is answered whole or not at all, because the API server takes no half of a list;
the failure names the objects and fields that are at fault.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from crds.conversion import ConversionError, Converter
from crds.kind import Kind
from toolkit.errors import StalledError
from webhooks import metrics

_API_VERSION: Final = "apiextensions.k8s.io/v1"
_NAMED: Final = 5
"""Failures that are told of one review."""
_AT_ONCE: Final = 256 << 10
"""Bytes that are converted without leaving the event loop: a few milliseconds."""
_THREADS: Final = 2
_MAX_MESSAGE: Final = 2048


class MalformedReviewError(StalledError):
    """What was sent is no ConversionReview of this version."""

    default_reason = "BadRequest"


class _Request(Struct, rename="camel"):
    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[Any]


class _Review(Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


class Conversions:
    """Converts the objects of all kinds that have more than one version."""

    def __init__(self, kinds: Sequence[Kind[Struct]]) -> None:
        self._converter = Converter(kinds)
        self._threads = asyncio.Semaphore(_THREADS)

    async def convert(self, body: bytes) -> bytes:
        """Return the review to answer with.

        Raises:
            MalformedReviewError: the body is none.
        """
        if len(body) <= _AT_ONCE:
            return self.answer(body)
        async with self._threads:
            return await asyncio.to_thread(self.answer, body)

    def answer(self, body: bytes) -> bytes:
        """Do the same here and now."""
        began = time.monotonic()
        request = _decoded(body)
        failures: list[str] = []
        converted = list(self._converted(request, failures))
        outcome = "failed" if failures else "converted"
        metrics.CONVERSIONS.labels(outcome).observe(time.monotonic() - began)
        response = _failed(failures) if failures else _succeeded(converted)
        return msgspec.json.encode(
            {
                "apiVersion": _API_VERSION,
                "kind": "ConversionReview",
                "response": {"uid": request.uid, **response},
            }
        )

    def _converted(self, request: _Request, failures: list[str]) -> Iterator[Any]:
        for obj in request.objects:
            try:
                yield self._converter.convert(obj, request.desired_api_version)
            except ConversionError as exc:
                failures.append(str(exc))


def _decoded(body: bytes) -> _Request:
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise MalformedReviewError(f"no ConversionReview: {exc}") from exc
    if (review.api_version, review.kind) != (_API_VERSION, "ConversionReview"):
        raise MalformedReviewError(f"no ConversionReview of {_API_VERSION}")
    return review.request


def _succeeded(converted: list[Any]) -> dict[str, Any]:
    return {"result": {"status": "Success"}, "convertedObjects": converted}


def _failed(failures: list[str]) -> dict[str, Any]:
    more = len(failures) - _NAMED
    told = [*failures[:_NAMED], *([f"and {more} more"] if more > 0 else [])]
    message = "; ".join(told).encode(errors="backslashreplace").decode()
    return {
        "result": {"status": "Failure", "reason": "Invalid", "message": message[:_MAX_MESSAGE]},
        "convertedObjects": [],
    }
