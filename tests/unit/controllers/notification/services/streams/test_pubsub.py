"""Google Cloud Pub/Sub: what is sent to its token service and to its API."""

import asyncio
import base64
import json
from collections.abc import Mapping
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from controllers.notification.services.service import Answer, Line, Target, UnsuitableError
from controllers.notification.services.streams import pubsub
from tests.fakes.notices import event

ACCOUNT = "penstock@project.iam.gserviceaccount.com"
TOKENS = "https://oauth2.googleapis.com/token"


class Google:
    """Answers as the token service and the API do, and keeps what it was sent."""

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
        given = {"access_token": "ya29.token"} if url == TOKENS else {"messageIds": ["1"]}
        return Answer(status=200, body=json.dumps(given).encode())

    async def dial(self, host: str, port: int) -> Line:  # noqa: ARG002 - the interface
        raise AssertionError("Google is asked over HTTP")


def target(token: str) -> Target:
    return Target(
        type="googlepubsub",
        namespace="apps",
        name="topic",
        address="project",
        channel="events",
        token=token,
        headers={"team": "shop"},
    )


def test_an_event_is_published_with_a_token_for_the_key_of_the_account() -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    key_file = json.dumps({"client_email": ACCOUNT, "private_key": pem})
    google = Google()

    asyncio.run(pubsub.send(event(), target(key_file), google))

    (tokens, _, form), (topic, headers, body) = google.sent
    asked = {name: value for name, (value,) in parse_qs(form.decode()).items()}
    claims = jwt.decode(
        asked["assertion"], private.public_key(), algorithms=["RS256"], audience=TOKENS
    )
    message = json.loads(body)["messages"][0]
    assert tokens == TOKENS
    assert asked["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert (claims["iss"], claims["exp"] - claims["iat"]) == (ACCOUNT, 600)
    assert topic == "https://pubsub.googleapis.com/v1/projects/project/topics/events:publish"
    assert headers["Authorization"] == "Bearer ya29.token"
    assert json.loads(base64.b64decode(message["data"]))["reason"] == "ReconciliationSucceeded"
    assert message["attributes"] == {"team": "shop", "delivery": "0" * 32}


@pytest.mark.parametrize(
    "token", ["", "no JSON", '{"client_email": "a"}', '{"client_email": "a", "private_key": "b"}']
)
def test_what_is_no_key_file_asks_nobody(token: str) -> None:
    google = Google()

    with pytest.raises(UnsuitableError, match="is not a key file of a service account"):
        asyncio.run(pubsub.send(event(), target(token), google))

    assert google.sent == []
