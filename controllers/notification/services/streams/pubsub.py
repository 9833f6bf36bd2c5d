"""Google Cloud Pub/Sub: the event as a message, with its metadata as attributes.

Schema: cloud.google.com/pubsub/docs/reference/rest/v1/projects.topics/publish. The address is the
id of the project, ``spec.channel`` the topic, the Secret's ``token`` a key file of a service
account (RFC 7523) whose token service is Google's.
"""

import base64
import time
from typing import Final
from urllib.parse import urlencode

import jwt
import msgspec

from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Target, UnsuitableError, bearer, post
from toolkit import untrusted

_API: Final = "https://pubsub.googleapis.com"
_TOKENS: Final = "https://oauth2.googleapis.com/token"
_SCOPE: Final = "https://www.googleapis.com/auth/pubsub"
_SECONDS: Final = 600
_LONGEST: Final = 64 << 10


class _Key(msgspec.Struct):
    """A key file."""

    client_email: str
    private_key: str


class _Token(msgspec.Struct):
    """An answer of the token service."""

    access_token: str


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Publish the event."""
    token = await _signed_in(target, ask)
    url = f"{_API}/v1/projects/{target.address}/topics/{target.channel}:publish"
    message = {
        "data": base64.b64encode(msgspec.json.encode(notice.event)).decode(),
        "attributes": {**target.headers, "delivery": notice.key},
    }
    await post(ask, url, {"messages": [message]}, bearer(token))


async def _signed_in(target: Target, ask: Ask) -> str:
    try:
        key = untrusted.load_json(target.token, _Key, size=_LONGEST)
        now = int(time.time())
        claims = {
            "iss": key.client_email,
            "scope": _SCOPE,
            "aud": _TOKENS,
            "iat": now,
            "exp": now + _SECONDS,
        }
        assertion = jwt.encode(claims, key.private_key, algorithm="RS256")
    except (untrusted.UntrustedError, ValueError, TypeError, jwt.PyJWTError) as exc:
        raise UnsuitableError(
            "'token' in the Secret is not a key file of a service account"
        ) from exc
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}
    answer = await ask(
        "POST",
        _TOKENS,
        body=urlencode(form).encode(),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    return untrusted.load_json(answer.body, _Token, size=_LONGEST).access_token
