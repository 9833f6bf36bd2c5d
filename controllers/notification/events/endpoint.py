"""Flux's endpoint for events: ``POST /`` with an event as JSON, or with an array of events.

The statuses are those of notification-controller (``internal/server/event_server.go``): 202 if the
event is on disk or no Alert selects it, 429 for a duplicate, 400 for an invalid event, and 413 for
one that is too large. Beyond Flux: 408 for a body that takes too long, and 503 with ``Retry-After``
if the event could not be stored; our own controllers then retry. They send several events together,
as an array (``toolkit.forwarding``): the response is 207 with the status of each event.
"""

import logging
from collections.abc import Callable
from typing import Final

import prometheus_client as prom
from aiohttp import web

from controllers.notification.bodies import Bodies, BodyError
from controllers.notification.events import event
from controllers.notification.events.intake import Intake
from toolkit import forwarding
from toolkit.errors import PenstockError
from toolkit.objects import ObjectKey

logger = logging.getLogger(__name__)

RECEIVED: Final = prom.Counter(
    "penstock_events_received", "Events that were posted, by the status of the answer.", ("code",)
)


def application(intake: Intake, wake: Callable[[ObjectKey], None]) -> web.Application:
    """Return the server; ``wake`` is called with each Provider that has new deliveries."""
    bodies = Bodies(event.MOST_BYTES)

    async def post(request: web.Request) -> web.Response:
        try:
            async with bodies.reading(request) as body:
                answer = _answer_each if body[:1] == b"[" else _answer
                response = await answer(body, intake, wake)
        except BodyError as exc:
            response = _counted(exc.status, f"{exc}\n")
        response.headers[forwarding.AT_ONCE] = str(forwarding.MOST)
        return response

    app = web.Application(client_max_size=event.MOST_BYTES)
    app.router.add_post("/", post)
    return app


async def _answer_each(
    body: bytes, intake: Intake, wake: Callable[[ObjectKey], None]
) -> web.Response:
    try:
        found = event.parse_each(body)
    except event.EventError as exc:
        return _counted(400, f"{exc}\n")
    statuses = [(await _taken(each, intake, wake)).status for each in found]
    return web.json_response(statuses, status=207)


async def _answer(body: bytes, intake: Intake, wake: Callable[[ObjectKey], None]) -> web.Response:
    try:
        found = event.parse(body)
    except event.EventError as exc:
        return _counted(400, f"{exc}\n")
    return await _taken(found, intake, wake)


async def _taken(
    found: event.Event, intake: Intake, wake: Callable[[ObjectKey], None]
) -> web.Response:
    try:
        providers = await intake.take(found)
    except PenstockError as exc:
        logger.warning("event not kept", extra={"error": str(exc)})
        response = _counted(503, "the event cannot be kept now\n")
        response.headers["Retry-After"] = "5"
        return response
    if providers is None:
        return _counted(429, "a duplicate of an event that was told\n")
    for provider in providers:
        wake(provider)
    return _counted(202, "")


def _counted(status: int, text: str) -> web.Response:
    """Return the answer about one event."""
    RECEIVED.labels(str(status)).inc()
    return web.Response(status=status, text=text or None)
