"""Google Cloud Pub/Sub: what is sent to its API."""

import asyncio
import base64
import json
from collections.abc import Mapping
from dataclasses import replace

from controllers.notification.services.service import Answer, Line, Target
from controllers.notification.services.streams import pubsub
from tests.fakes.notices import event

TARGET = Target(
    type="googlepubsub",
    namespace="apps",
    name="topic",
    address="project",
    channel="events",
    token="ya29.token",
    headers={"team": "shop"},
)


class Google:
    """Answers as the API does, and keeps what it was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Mapping[str, str], bytes]] = []

    async def __call__(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        assert method == "POST"
        self.sent.append((url, dict(headers or {}), body or b""))
        return Answer(status=200, body=b'{"messageIds": ["1"]}')

    async def dial(self, host: str, port: int) -> Line:  # noqa: ARG002 - the interface
        raise AssertionError("Google is asked over HTTP")


def test_an_event_is_published() -> None:
    google = Google()

    asyncio.run(pubsub.send(event(), TARGET, google))

    ((topic, headers, body),) = google.sent
    message = json.loads(body)["messages"][0]
    assert topic == "https://pubsub.googleapis.com/v1/projects/project/topics/events:publish"
    assert headers["Authorization"] == "Bearer ya29.token"
    assert json.loads(base64.b64decode(message["data"]))["reason"] == "ReconciliationSucceeded"
    assert message["attributes"] == {"team": "shop", "delivery": "0" * 32}


def test_names_lead_to_no_other_operation() -> None:
    """A token of the controller may be worth more than publishing."""
    google = Google()
    hostile = replace(TARGET, address="p/subscriptions/s:pull?x=", channel="../../x#")

    asyncio.run(pubsub.send(event(), hostile, google))

    ((url, _, _),) = google.sent
    path = url.removeprefix("https://pubsub.googleapis.com")
    assert path == (
        "/v1/projects/p%2Fsubscriptions%2Fs%3Apull%3Fx%3D/topics/..%2F..%2Fx%23:publish"
    )


def test_the_state_of_a_commit_is_not_published() -> None:
    google = Google()

    asyncio.run(pubsub.send(event(commit_status="update"), TARGET, google))

    assert google.sent == []
