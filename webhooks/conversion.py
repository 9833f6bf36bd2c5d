"""Answer ``apiextensions.k8s.io/v1 ConversionReview``: convert objects between versions.

It is needed for every read and write in an old version, so it does no IO and depends only on the
request. A review succeeds or fails as a whole, because the API server does not accept a part of a
list. The error names the objects and fields. So does the log, once per object, because a stored
object fails again in every list. Neither contains values.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Struct

from crds import misfits
from crds.conversion import ConversionError, Converter
from crds.kind import Kind
from toolkit.errors import StalledError
from toolkit.objects import Json, key_of
from webhooks import metrics

logger = logging.getLogger(__name__)

_API_VERSION: Final = "apiextensions.k8s.io/v1"
_NAMED: Final = 5
"""Maximal number of objects in the error of one review."""
_AT_ONCE: Final = 256 << 10
"""Bytes that are converted without leaving the event loop: a few milliseconds."""
_THREADS: Final = 2
_MAX_MESSAGE: Final = 2048
_REMEMBERED: Final = 1024
"""Failures that are not logged again."""
_MAX_FIELD: Final = 253
_READ: Final = ("name", "namespace", "uid", "labels", "annotations")
"""Metadata that API servers read from an answer; they take the rest from their request
(apiextensions-apiserver ``conversion/webhook_converter.go``: ``validateConvertedObject`` and
``restoreObjectMeta``). ``managedFields`` would be half of most answers.
"""


class MalformedReviewError(StalledError):
    """The body is not a ConversionReview of this version."""

    default_reason = "BadRequest"


class _Request(Struct, rename="camel"):
    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[Any]


class _Review(Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One object that could not be converted; ``why`` names it, and the field."""

    kind: str
    namespace: str
    object: str
    version: str
    wanted: str
    why: str


class Conversions:
    """Converts the objects of all kinds that have more than one version."""

    def __init__(self, kinds: Sequence[Kind[Struct]]) -> None:
        self._converter = Converter(kinds)
        self._kinds = frozenset(kind.kind for kind in kinds)
        self._told: OrderedDict[Failure, None] = OrderedDict()
        self._threads = asyncio.Semaphore(_THREADS)

    async def convert(self, body: bytes) -> bytes:
        """Return the review to answer with.

        Raises:
            MalformedReviewError: the body is not a review.
        """
        if len(body) <= _AT_ONCE:
            answer, failures = self.answer(body)
        else:
            async with self._threads:
                answer, failures = await asyncio.to_thread(self.answer, body)
        self._tell(failures)
        return answer

    def answer(self, body: bytes) -> tuple[bytes, list[Failure]]:
        """Convert in this process, and return the failures too."""
        began = time.monotonic()
        request = _decoded(body)
        failures: list[Failure] = []
        converted = list(self._converted(request, failures))
        outcome = "failed" if failures else "converted"
        metrics.CONVERSIONS.labels(outcome).observe(time.monotonic() - began)
        response = _failed(failures) if failures else _succeeded(converted)
        review = {
            "apiVersion": _API_VERSION,
            "kind": "ConversionReview",
            "response": {"uid": request.uid, **response},
        }
        return msgspec.json.encode(review), failures

    def _tell(self, failures: Sequence[Failure]) -> None:
        for each in failures:
            kind = each.kind if each.kind in self._kinds else "unknown"
            metrics.UNCONVERTED.labels(kind).inc()
        for each in failures[:_NAMED]:
            if each not in self._told:
                logger.error(
                    "object not converted",
                    extra={
                        "kind": each.kind,
                        "namespace": each.namespace,
                        "object": each.object,
                        "from": each.version,
                        "to": each.wanted,
                        "error": each.why,
                    },
                )
            self._told[each] = None
            self._told.move_to_end(each)
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)

    def _converted(self, request: _Request, failures: list[Failure]) -> Iterator[Any]:
        for obj in request.objects:
            try:
                yield _in_short(self._converter.convert(obj, request.desired_api_version))
            except ConversionError as exc:
                failures.append(_failure(obj, request.desired_api_version, str(exc)))


def _in_short(obj: Json) -> Json:
    """Return the object without the metadata that the API server does not read of it."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return obj
    return {**obj, "metadata": {key: metadata[key] for key in _READ if key in metadata}}


def _failure(obj: Any, wanted: str, why: str) -> Failure:
    """Return the failure of an object, which may be any JSON value."""
    body = obj if isinstance(obj, dict) else {}
    metadata = body.get("metadata")
    key = key_of({"metadata": metadata if isinstance(metadata, dict) else {}})
    return Failure(
        kind=_cut(body.get("kind")),
        namespace=_cut(key.namespace),
        object=_cut(key.name),
        version=_cut(body.get("apiVersion")),
        wanted=_cut(wanted),
        why=why[:_MAX_MESSAGE],
    )


def _cut(value: Any) -> str:
    return value[:_MAX_FIELD] if isinstance(value, str) else ""


def _decoded(body: bytes) -> _Request:
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise MalformedReviewError(f"no ConversionReview: {misfits.told(exc)}") from exc
    if (review.api_version, review.kind) != (_API_VERSION, "ConversionReview"):
        raise MalformedReviewError(f"no ConversionReview of {_API_VERSION}")
    return review.request


def _succeeded(converted: list[Any]) -> dict[str, Any]:
    return {"result": {"status": "Success"}, "convertedObjects": converted}


def _failed(failures: Sequence[Failure]) -> dict[str, Any]:
    more = len(failures) - _NAMED
    told = [*(each.why for each in failures[:_NAMED]), *([f"and {more} more"] if more > 0 else [])]
    message = "; ".join(told).encode(errors="backslashreplace").decode()
    return {
        "result": {"status": "Failure", "reason": "Invalid", "message": message[:_MAX_MESSAGE]},
        "convertedObjects": [],
    }
