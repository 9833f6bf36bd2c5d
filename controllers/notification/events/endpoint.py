"""Flux's endpoint for events: ``POST /`` with an event as JSON.

Answers as notification-controller does (``internal/server/event_server.go``): 202 when the event is
on disk or nobody wants it, 429 for a duplicate, 400 for what is not an event, 413 for what is too
large. Beyond Flux: 408 for a body that takes too long, and 503 with ``Retry-After`` where the event
could not be kept; our own controllers then try again.
"""

import logging
from collections.abc import Callable
from typing import Final

import prometheus_client as prom
from aiohttp import web

from controllers.notification.bodies import Bodies, BodyError
from controllers.notification.events import event
from controllers.notification.events.intake import Intake
from toolkit.errors import PenstockError
from toolkit.objects import ObjectKey

logger = logging.getLogger(__name__)

RECEIVED: Final = prom.Counter(
    "penstock_events_received", "Events that were posted, by the status of the answer.", ("code",)
)


def application(intake: Intake, wake: Callable[[ObjectKey], None]) -> web.Application:
    """Return the server; ``wake`` is told who has something to send."""
    bodies = Bodies(event.MOST_BYTES)

    async def post(request: web.Request) -> web.Response:
        try:
            async with bodies.reading(request) as body:
                response = await _answer(body, intake, wake)
        except BodyError as exc:
            response = web.Response(status=exc.status, text=f"{exc}\n")
        RECEIVED.labels(str(response.status)).inc()
        return response

    app = web.Application(client_max_size=event.MOST_BYTES)
    app.router.add_post("/", post)
    return app


async def _answer(body: bytes, intake: Intake, wake: Callable[[ObjectKey], None]) -> web.Response:
    try:
        found = event.parse(body)
        providers = await intake.take(found)
    except event.EventError as exc:
        return web.Response(status=400, text=f"{exc}\n")
    except PenstockError as exc:
        logger.warning("event not kept", extra={"error": str(exc)})
        return web.Response(
            status=503, text="the event cannot be kept now\n", headers={"Retry-After": "5"}
        )
    if providers is None:
        return web.Response(status=429, text="a duplicate of an event that was told\n")
    for provider in providers:
        wake(provider)
    return web.Response(status=202)
