"""Answer the API server: ``POST /admit/<webhook>`` over TLS.

1. Callers are not trusted: API servers present no client certificate unless they are configured to
   (``callers``). The review states who writes. All resources are bounded: connections, the size of
   a body, the bytes that are held at once (``reading``), the slots of each plugin, the time.
2. The deadline is the API server's own (``?timeout=``) less a margin, so that the user reads our
   message and not "context deadline exceeded".
3. Every failure denies. A request passes only if every plugin that is asked returns an answer; a
   plugin that fails open may fail.
4. Bodies and values are never logged: only who was denied which kind, where, and why.
"""

import asyncio
import contextlib
import dataclasses
import functools
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from aiohttp import web

from crds.meta import parse_duration
from toolkit.errors import PenstockError
from toolkit.net.connections import Connections, Limits
from toolkit.net.reading import Body, Budget, NoRoomError, TooLargeError
from toolkit.turns import BusyError, Turns
from webhooks import metrics, review
from webhooks.callers import ANYBODY, Callers
from webhooks.plugin import Answer, DeniedError, Plugin, Row
from webhooks.request import Request

logger = logging.getLogger(__name__)

MAX_BODY: Final = 7 << 20
"""Limit in bytes: the new and the old object, of at most 3 MiB each, and the user."""
MAX_CONVERSION: Final = 64 << 20
"""Bytes; a whole list is converted in one call."""
MAX_REVIEWING: Final = 48 << 20
"""Bytes of all bodies that are read or reviewed at a time."""
MAX_CONVERTING: Final = 64 << 20
"""Likewise of those that are converted: neither takes the other's."""
_ARRIVAL: Final = 5.0
"""Seconds for a body to come, which API servers send at once."""
_HEAD: Final = 512 << 10
"""Limit of bytes before a body is read, some of which are the body's. On all connections together
this is half of the process's memory.
"""
_MARGIN: Final = 0.5
_LONGEST: Final = 30.0
_JSON: Final = "application/json"
_STRANGER: Final = "only API servers may send requests; this caller is not one"

Convert = Callable[[bytes], Awaitable[bytes]]
"""Returns the answer to a body."""
_Answer = Callable[[Body], Awaitable[bytes]]


class Complete(Protocol):
    """A cache, of which only one thing matters here."""

    async def wait_synced(self) -> None:
        """Wait until it is complete."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A plugin at work."""

    row: Row
    plugin: Plugin
    turns: Turns
    caches: tuple[Complete, ...] = ()
    """The caches of the plugin; its requests wait until all are complete."""


class Reviews:
    """Decides about decoded requests: the answers of plugins, or the denial.

    Each plugin is registered under its own name, and under that of the webhook that it shares. API
    servers may still have the configuration of a replica whose plugins shared none.
    """

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._asked: dict[str, tuple[Entry, ...]] = {}
        for name, entry in entries.items():
            self._asked[name] = (entry,)
            if shared := entry.row.webhook:
                self._asked[shared] = (*self._asked.get(shared, ()), entry)
            _measure(name, entry.turns)

    def behind(self, webhook: str) -> tuple[Entry, ...]:
        """Return the plugins of a webhook in the order of their table; none if there is no such."""
        return self._asked.get(webhook, ())

    async def decide(self, entries: Sequence[Entry], body: Body, *, deadline: float) -> bytes:
        """Return the ``AdmissionReview`` to answer with.

        The bytes of the body count for its namespace, so that reviews of one namespace that take
        long do not keep out those of others.

        Raises:
            MalformedError: the body is not a review.
        """
        request = review.decode(body.data, deadline=deadline)
        try:
            body.belong(request.namespace)
        except NoRoomError as exc:
            return review.denied(request, DeniedError(str(exc), code=429))
        if len(entries) == 1:
            decided = [await self._decided(entries[0], request)]
        else:
            decided = await asyncio.gather(*(self._decided(each, request) for each in entries))
        answer = _together([each for each in decided if isinstance(each, Answer)])
        denials = [each for each in decided if isinstance(each, DeniedError)]
        if denials:
            return review.denied(request, denials[0], warnings=answer.warnings)
        return review.allowed(request, answer, mutating=entries[0].row.mutating)

    async def _decided(self, entry: Entry, request: Request) -> Answer | DeniedError:
        """Return the decision of one plugin, and count it."""
        began = _now()
        found: Answer | DeniedError
        try:
            found = await self._ask(entry, request)
            decision = "allowed" if found.object is None else "changed"
        except PenstockError as exc:
            found = review.understood(exc)
            decision = _DECISIONS.get(found.code, "denied")
            _report(entry, request, found)
        metrics.REVIEWS.labels(entry.row.name, request.operation, decision).observe(_now() - began)
        return Answer() if entry.row.fail_open and decision in _UNDECIDED else found

    async def _ask(self, entry: Entry, request: Request) -> Answer:
        try:
            async with asyncio.timeout_at(min(request.deadline, _now() + entry.row.timeout)):
                for cache in entry.caches:
                    await cache.wait_synced()
                async with entry.turns.turn(request.namespace) as place:
                    return await entry.plugin.review(dataclasses.replace(request, place=place))
        except TimeoutError as exc:
            raise DeniedError(
                f"{entry.row.name} came to no decision in time; try again", code=504
            ) from exc
        except BusyError as exc:
            raise DeniedError(str(exc), code=429) from exc
        except (PenstockError, asyncio.CancelledError):
            raise
        except Exception as exc:  # noqa: BLE001 - the one place
            # The message may quote the object, so only positions are logged.
            logger.error(  # noqa: TRY400 - see above
                "plugin failed",
                extra={
                    "plugin": entry.row.name,
                    "uid": request.uid,
                    "type": type(exc).__name__,
                    "at": traceback.format_tb(exc.__traceback__)[-5:],
                },
            )
            raise DeniedError(
                f"{entry.row.name} failed, which is a bug in Penstock; its log says where"
                f" (request {request.uid})",
                code=500,
            ) from None


class Endpoint:
    """The HTTP side: reads bodies within bounds, and hands them on."""

    def __init__(
        self,
        reviews: Reviews,
        *,
        convert: Convert | None = None,
        limits: Limits | None = None,
        callers: Callers = ANYBODY,
    ) -> None:
        self._callers = callers
        self.connections = Connections(limits or Limits.fitting(request_bytes=_HEAD))
        self._reviews = reviews
        self._convert = convert
        self._reviewing = Budget(total=MAX_REVIEWING, each=MAX_BODY, seconds=_ARRIVAL)
        self._converting = Budget(total=MAX_CONVERTING, each=MAX_CONVERSION, seconds=_ARRIVAL)
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def application(self) -> web.Application:
        """Return the web application."""
        app = web.Application()
        app.router.add_post("/admit/{webhook}", self._admit)
        if self._convert:
            app.router.add_post("/convert", self._converted)
        app.router.add_get("/readyz", self._readyz)
        return app

    async def drain(self, *, linger: float, grace: float) -> None:
        """Answer for ``linger`` seconds more, and wait ``grace`` seconds for running reviews."""
        self.connections.retire()
        await asyncio.sleep(linger)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._idle.wait()

    async def _admit(self, request: web.Request) -> web.Response:
        self.connections.expect(request.transport, MAX_BODY)
        entries = self._reviews.behind(request.match_info["webhook"])
        if not entries:
            return _refused(404, "no such webhook")
        if not self._callers.know(request.transport, request.headers):
            return _refused(403, _STRANGER)
        deadline = _now() + _seconds(request, max(each.row.timeout for each in entries))
        # The review keeps the deadline by itself, and answers it with a denial.
        decide = functools.partial(self._reviews.decide, entries, deadline=deadline - _LAST)
        try:
            reply = await self._answer(request, self._reviewing, deadline, decide)
        except TimeoutError:
            return _refused(504, "the request was not read in time")
        except review.MalformedError as exc:
            return _refused(400, str(exc))
        except DeniedError as exc:
            return _refused(exc.code, str(exc))
        return self._replied(reply)

    async def _converted(self, request: web.Request) -> web.Response:
        self.connections.expect(request.transport, MAX_CONVERSION)
        convert = self._convert
        if convert is None:
            return _refused(404, "nothing is converted here")
        if not self._callers.reach(request.transport, request.headers):
            return _refused(403, _STRANGER)
        deadline = _now() + _seconds(request, _LONGEST)

        async def in_time(body: Body) -> bytes:
            async with asyncio.timeout_at(deadline):
                return await convert(body.data)

        try:
            reply = await self._answer(request, self._converting, deadline, in_time)
        except TimeoutError:
            return _refused(504, "not converted in time")
        except DeniedError as exc:
            return _refused(exc.code, str(exc))
        except PenstockError as exc:
            return _refused(400, str(exc))
        return self._replied(reply)

    def _replied(self, body: bytes) -> web.Response:
        return web.Response(body=body, content_type=_JSON)

    async def _readyz(self, _: web.Request) -> web.Response:
        if self.connections.retiring:
            return web.Response(status=503, text="draining")
        return web.Response(text="ok")

    async def _answer(
        self, request: web.Request, budget: Budget, deadline: float, answer: _Answer
    ) -> bytes:
        """Read the body, within the bounds, and answer it; its bytes count until then.

        Once it is read its connection is not closed to make room for another one, until the answer
        is sent (``toolkit.net.listening``).

        Raises:
            DeniedError: the body is not JSON or is too large, or too many bodies are being read.
            TimeoutError: it does not come in time.
        """
        if request.content_type != _JSON:
            raise DeniedError("not application/json", code=415)
        parts, announced = request.content.iter_any(), request.content_length
        self._in_flight += 1
        self._idle.clear()
        try:
            async with budget.read(parts, announced=announced, deadline=deadline) as body:
                self.connections.work(request.transport)
                return await answer(body)
        except TooLargeError as exc:
            raise DeniedError(str(exc), code=413) from exc
        except NoRoomError as exc:
            raise DeniedError(str(exc), code=429) from exc
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()


_DECISIONS: Final = {429: "overloaded", 500: "failed", 503: "unavailable", 504: "timeout"}
_UNDECIDED: Final = frozenset(_DECISIONS.values())
_LAST: Final = 0.05
"""Seconds to write the answer in."""


def _together(answers: Sequence[Answer]) -> Answer:
    """Return one answer with the content of all; at most one of them changes the object."""
    if len(answers) == 1:
        return answers[0]
    return Answer(
        object=next((each.object for each in answers if each.object is not None), None),
        warnings=tuple(line for each in answers for line in each.warnings),
        audit={key: value for each in answers for key, value in each.audit.items()},
    )


def _measure(name: str, turns: Turns) -> None:
    """Have the gauges ask, whenever they are read."""
    metrics.IN_FLIGHT.labels(name).set_function(lambda: turns.running)
    metrics.WAITING.labels(name).set_function(lambda: turns.waiting)


def _report(entry: Entry, request: Request, denial: DeniedError) -> None:
    metrics.DENIALS.labels(entry.row.name, str(denial.code)).inc()
    logger.info(
        "denied",
        extra={
            "plugin": entry.row.name,
            "uid": request.uid,
            "operation": request.operation,
            "object": str(request.ref),
            "user": request.user.name,
            "dryRun": request.dry_run,
            "code": denial.code,
            "reason": str(denial),
        },
    )


def _refused(status: int, reason: str) -> web.Response:
    metrics.REFUSED.labels(str(status)).inc()
    return web.Response(status=status, text=reason)


def _seconds(request: web.Request, usual: float) -> float:
    """Return the time for the answer: that of the API server, less a margin."""
    try:
        told = parse_duration(request.query.get("timeout", ""))
    except ValueError:
        told = usual
    told = min(max(told, 0.0), _LONGEST)
    return told - min(_MARGIN, told / 4)


def _now() -> float:
    return asyncio.get_running_loop().time()
