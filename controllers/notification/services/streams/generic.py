"""Any receiver of events: the event as Flux posts it, signed or not.

Schema: fluxcd/pkg ``apis/event/v1beta1``. Headers are those of Flux and of the Secret.
"""

import hashlib
import hmac
from typing import Final

import msgspec

from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Target
from toolkit.remote.proxy import basic

KEY: Final = "Idempotency-Key"
"""The same for each attempt (draft-ietf-httpapi-idempotency-key-header)."""


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Post the event."""
    await _post(notice, target, ask, _body(notice), {})


async def send_signed(notice: Notice, target: Target, ask: Ask) -> None:
    """Post the event with a signature of its bytes."""
    body = _body(notice)
    digest = hmac.new(target.token.encode(), body, hashlib.sha256).hexdigest()
    await _post(notice, target, ask, body, {"X-Signature": f"sha256={digest}"})


async def _post(
    notice: Notice, target: Target, ask: Ask, body: bytes, signature: dict[str, str]
) -> None:
    login = {"Authorization": basic(target.username, target.password)} if target.password else {}
    headers = {
        "Content-Type": "application/json",
        **login,
        "gotk-component": notice.event.reporting_controller,
        KEY: notice.key,
        **target.headers,
        **signature,
    }
    await ask("POST", target.address, body=body, headers=headers)


def _body(notice: Notice) -> bytes:
    return msgspec.json.encode(notice.event)
