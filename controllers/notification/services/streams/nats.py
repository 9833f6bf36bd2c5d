"""NATS: publish the event as a message of a subject, and wait for its acknowledgement.

Protocol: docs.nats.io/reference/reference-protocols/nats-protocol. The address is ``nats://`` or
``tls://`` with host and port; ``spec.channel`` is the subject. TLS is used if the server requires
it. It is mandatory with ``tls://``, with certificates, and with ``--insecure-allow-http=false``.

The login is a user and a password, a token, or the seed of an Ed25519 user key (NKey, starts with
``SU``). That key signs the server's nonce; the seed is the ``token`` in the Secret.

Each connection carries one message. A PONG after it acknowledges the message.
"""

import asyncio
import base64
import binascii
import re
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Ask, Line, Target, UnsuitableError
from controllers.notification.services.streams.generic import KEY
from toolkit import untrusted
from toolkit.remote.errors import AuthError, HttpError

_PORT: Final = 4222
_LONGEST_LINE: Final = 64 << 10
"""The reader's limit."""
_MOST_LINES: Final = 100
_SUBJECT: Final = re.compile(r"[^\s.*>]+(?:\.[^\s.*>]+)*")
_SEED_BYTES: Final = 36
_SEED_PREFIX: Final = 18 << 3
_USER_PREFIX: Final = 20 << 3
"""The prefix of user keys in NKeys: github.com/nats-io/nkeys ``strkey.go``."""


class _Info(msgspec.Struct):
    """The INFO of a server."""

    max_payload: int = 1 << 20
    tls_required: bool = False
    tls_available: bool = False
    headers: bool = False
    nonce: str = ""


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Publish the event."""
    scheme, host, port = place(target.address)
    subject = target.channel
    if not _SUBJECT.fullmatch(subject):
        raise UnsuitableError("spec.channel is not a subject: write words with dots, no * and no >")
    body = msgspec.json.encode(notice.event)
    line = await ask.dial(host, port)
    try:
        info = await _hello(line, host, secure=scheme == "tls" or line.secure)
        await _say(line, b"CONNECT " + msgspec.json.encode(_login(target, info)))
        headers = f"NATS/1.0\r\n{KEY}: {notice.key}\r\nNats-Msg-Id: {notice.key}\r\n\r\n".encode()
        head = headers if info.headers else b""
        size = len(head) + len(body)
        if size > info.max_payload:
            raise UnsuitableError(f"the event has {size} bytes, the server takes fewer")
        verb = f"HPUB {subject} {len(head)} {size}" if head else f"PUB {subject} {size}"
        await _say(line, verb.encode(), head + body, b"PING")
        await _acknowledged(line)
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as exc:
        raise HttpError(f"'{host}' ended the connection, or does not speak NATS") from exc
    finally:
        line.writer.close()


def place(address: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address.

    Raises:
        UnsuitableError: it is not an address of NATS, or holds credentials.
    """
    try:
        parts = urlsplit(address if "://" in address else f"nats://{address}")
        port = parts.port or _PORT
    except ValueError as exc:
        raise UnsuitableError("the address is not a URL: write nats://<host>:4222") from exc
    if parts.scheme not in {"nats", "tls"} or not parts.hostname or parts.path.strip("/"):
        raise UnsuitableError("the address is not one of NATS: write nats://<host>:4222")
    if parts.username is not None or parts.password is not None:
        raise UnsuitableError("the address holds credentials: write them into the Secret")
    return parts.scheme, parts.hostname, port


async def _hello(line: Line, host: str, *, secure: bool) -> _Info:
    """Read the server's INFO, and start TLS if the server or ``secure`` requires it."""
    verb, _, rest = (await _read(line)).partition(b" ")
    if verb.upper() != b"INFO":
        raise ValueError("no INFO")
    try:
        info = untrusted.load_json(rest, _Info, size=_LONGEST_LINE)
    except untrusted.UntrustedError as exc:
        raise ValueError("INFO cannot be read") from exc
    if secure and not (info.tls_required or info.tls_available):
        raise AuthError(f"'{host}' offers no TLS, which is demanded")
    if secure or info.tls_required:
        try:
            await line.writer.start_tls(line.context, server_hostname=host)
        except OSError as exc:
            raise AuthError(f"TLS connection to '{host}' failed: {type(exc).__name__}") from exc
    return info


def _login(target: Target, info: _Info) -> dict[str, Any]:
    login: dict[str, Any] = {
        "verbose": False,
        "pedantic": False,
        "lang": "python",
        "version": "1",
        "name": "penstock",
        "protocol": 1,
        "headers": info.headers,
        "no_responders": False,
    }
    if target.token.startswith("SU"):
        return login | signed(target.token, info.nonce)
    if target.username:
        return login | {"user": target.username, "pass": target.password}
    return login | {"auth_token": target.token} if target.token else login


def signed(seed: str, nonce: str) -> dict[str, str]:
    """Return the public key of a seed and its signature of a nonce.

    Raises:
        UnsuitableError: it is not a seed of a user.
    """
    try:
        key = Ed25519PrivateKey.from_private_bytes(_seed(seed))
    except ValueError as exc:
        raise UnsuitableError("'token' in the Secret is not a seed of a user's NKey") from exc
    public = bytes([_USER_PREFIX]) + key.public_key().public_bytes_raw()
    public += binascii.crc_hqx(public, 0).to_bytes(2, "little")
    signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).decode().rstrip("=")
    return {"nkey": base64.b32encode(public).decode().rstrip("="), "sig": signature}


def _seed(text: str) -> bytes:
    """Return the key in a seed; empty if it is not the seed of a user key."""
    raw = base64.b32decode(text + "=" * (-len(text) % 8))
    if len(raw) != _SEED_BYTES:
        return b""
    content, check = raw[:-2], int.from_bytes(raw[-2:], "little")
    prefix = content[0] & 0xF8, (content[0] & 0x07) << 5 | content[1] >> 3
    right = prefix == (_SEED_PREFIX, _USER_PREFIX) and binascii.crc_hqx(content, 0) == check
    return content[2:] if right else b""


async def _acknowledged(line: Line) -> None:
    """Read until the PONG that follows the message.

    Raises:
        HttpError: the server refuses the login or the message.
    """
    for _ in range(_MOST_LINES):
        verb, _, rest = (await _read(line)).partition(b" ")
        match verb.upper():
            case b"PONG":
                return
            case b"PING":
                await _say(line, b"PONG")
            case b"-ERR":
                raise _refusal(rest.decode(errors="replace").strip(" '").lower())
    raise ValueError("no PONG")


def _refusal(why: str) -> HttpError:
    """Return the error for a server's message; a long or unusual one is not quoted."""
    if why.startswith(("authorization violation", "authentication", "user authentication")):
        return AuthError("the server refuses the login: correct it in the Secret", status=401)
    if why.startswith("permissions violation"):
        return AuthError("the login may not publish this subject", status=403)
    known = why.replace(" ", "").isalpha() and len(why) <= 60
    return HttpError(f"the server refuses the event: {why if known else 'an error'}")


async def _read(line: Line) -> bytes:
    return (await line.reader.readuntil(b"\r\n")).strip()


async def _say(line: Line, *parts: bytes) -> None:
    line.writer.write(b"".join(part + b"\r\n" for part in parts))
    await line.writer.drain()
