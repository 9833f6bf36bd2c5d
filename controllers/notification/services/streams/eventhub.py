"""Azure Event Hubs: the event over HTTPS, with a shared access signature or a token.

Schema: learn.microsoft.com/rest/api/eventhub/send-event and "Generate a shared access signature".
The address is a connection string, or the host of the namespace beside a token; ``spec.channel`` is
the name of the hub where the connection string has none.
"""

import base64
import hashlib
import hmac
import time
from typing import Final
from urllib.parse import quote_plus

import msgspec

from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Target, UnsuitableError

_VALID_SECONDS: Final = 300


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send the event."""
    url, authorization = signed(target, now=time.time())
    headers = {
        "Content-Type": "application/json",
        "Authorization": authorization,
        "BrokerProperties": msgspec.json.encode({"MessageId": notice.key}).decode(),
    }
    await ask("POST", url, body=msgspec.json.encode(notice.event), headers=headers)


def signed(target: Target, *, now: float) -> tuple[str, str]:
    """Return the address of the hub and the header that signs in.

    Raises:
        UnsuitableError: the address names no namespace or no hub, or there is no key.
    """
    pairs = (each.partition("=") for each in target.address.split(";"))
    parts = {name.strip(): value for name, equals, value in pairs if equals}
    place = parts.get("Endpoint", "" if parts else target.address).partition("://")[2]
    place = (place or target.address).strip("/")
    hub = parts.get("EntityPath", "") or target.channel
    if not place or "=" in place or not hub:
        raise UnsuitableError(
            "the address names no namespace or no hub: write a connection string with Endpoint, "
            "SharedAccessKeyName, SharedAccessKey and EntityPath"
        )
    scheme = "http" if target.address.startswith("http://") or "=http://" in target.address else ""
    url = f"{scheme or 'https'}://{place}/{hub}"
    if target.token:
        return f"{url}/messages", f"Bearer {target.token}"
    name, key = parts.get("SharedAccessKeyName", ""), parts.get("SharedAccessKey", "")
    if not (name and key):
        raise UnsuitableError(
            "there is no key: write SharedAccessKeyName and SharedAccessKey into the address"
        )
    until = str(int(now) + _VALID_SECONDS)
    resource = quote_plus(url.lower())
    digest = hmac.new(key.encode(), f"{resource}\n{until}".encode(), hashlib.sha256).digest()
    signature = quote_plus(base64.b64encode(digest))
    return f"{url}/messages", (
        f"SharedAccessSignature sr={resource}&sig={signature}&se={until}&skn={quote_plus(name)}"
    )
