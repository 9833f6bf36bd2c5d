"""Azure Event Hubs: send the event over HTTPS, with a shared access signature or a token.

Schema: learn.microsoft.com/rest/api/eventhub/send-event and "Generate a shared access signature".
The address is a connection string, with the key of the signature. With a token, the address is the
name of the hub, and ``spec.channel`` is its namespace, as in Flux. The address may also be the host
of the namespace, and ``spec.channel`` the hub.
"""

import base64
import hashlib
import hmac
import re
import time
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_plus

import msgspec

from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Target, UnsuitableError

_VALID_SECONDS: Final = 300
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,254}[A-Za-z0-9])?")
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """The URL of a hub, and the key of a connection string, if it has one."""

    url: str
    key_name: str = ""
    key: str = field(default="", repr=False)


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Send the event."""
    if notice.updates_commit:
        return
    found = hub(target)
    login = f"Bearer {target.token}" if target.token else signature(found, now=time.time())
    headers = {
        "Content-Type": "application/json",
        "Authorization": login,
        "BrokerProperties": msgspec.json.encode({"MessageId": notice.key}).decode(),
    }
    body = msgspec.json.encode(notice.event)
    await ask("POST", f"{found.url}/messages", body=body, headers=headers)


def hub(target: Target) -> Hub:
    """Return the hub of a target.

    Raises:
        UnsuitableError: the address has no namespace or no hub.
    """
    address, channel = target.address, target.channel
    pairs = (each.partition("=") for each in address.split(";"))
    parts = {name.strip(): value for name, equals, value in pairs if equals}
    if "Endpoint" in parts:
        scheme, place = _split(parts["Endpoint"])
        return Hub(
            url=_url(scheme, place, parts.get("EntityPath", "") or channel),
            key_name=parts.get("SharedAccessKeyName", ""),
            key=parts.get("SharedAccessKey", ""),
        )
    if "://" in address or ".servicebus." in address:
        scheme, place = _split(address)
        return Hub(url=_url(scheme, place, channel))
    host = channel if "." in channel else f"{channel}.servicebus.windows.net"
    return Hub(url=_url("https", host if channel else "", address))


def signature(found: Hub, *, now: float) -> str:
    """Return the header that signs in with the key of a connection string.

    Raises:
        UnsuitableError: it has none.
    """
    if not (found.key_name and found.key):
        raise UnsuitableError(
            "nothing signs in: write a connection string with SharedAccessKeyName and"
            " SharedAccessKey as 'address', or a token as 'token' into the Secret, or name a"
            " ServiceAccount in spec.serviceAccountName"
        )
    until = str(int(now) + _VALID_SECONDS)
    resource = quote_plus(found.url.lower())
    signed = f"{resource}\n{until}".encode()
    digest = base64.b64encode(hmac.new(found.key.encode(), signed, hashlib.sha256).digest())
    return (
        f"SharedAccessSignature sr={resource}&sig={quote_plus(digest)}&se={until}"
        f"&skn={quote_plus(found.key_name)}"
    )


def _split(place: str) -> tuple[str, str]:
    scheme, mark, rest = place.partition("://")
    # sb:// is the scheme of AMQP; the same host serves HTTPS
    return ("http" if scheme == "http" else "https"), (rest if mark else place).strip("/")


def _url(scheme: str, host: str, name: str) -> str:
    if not _HOST.fullmatch(host) or not _NAME.fullmatch(name):
        raise UnsuitableError(
            "the address names no namespace or no hub: write the name of the hub as address and its"
            " namespace as channel, or a connection string with Endpoint and EntityPath"
        )
    return f"{scheme}://{host}/{name}"
