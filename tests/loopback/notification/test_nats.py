"""The type ``nats`` against a real server: logins, TLS, and what is refused."""

import base64
import binascii
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controllers.notification.sending.asking import Asking
from controllers.notification.sending.targets import Place
from controllers.notification.services.service import Target, UnsuitableError
from controllers.notification.services.streams import nats
from tests.fakes import natsserver
from tests.fakes.natsserver import Listener
from tests.fakes.notices import event
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.errors import AuthError, HttpError
from toolkit.remote.http.http import Http
from toolkit.remote.proxy import Proxy

PLAIN = Endpoint(plain_http=True)
TARGET = Target(type="nats", namespace="apps", name="n", channel="flux.events")


async def sent(port: int, endpoint: Endpoint = PLAIN, **fields: Any) -> None:
    """Publish one event."""
    target = replace(TARGET, **{"address": f"nats://localhost:{port}", **fields})
    place = Place(target=target, endpoint=endpoint, timeout=10, secrets=())
    async with Http() as http:
        await nats.send(event(), target, Asking(http, place))


async def heard(port: int, send: Callable[[], Awaitable[None]], **login: str) -> Any:
    """Return headers and body of what is published."""
    listener = await Listener.open(port, "flux.>", **login)
    await send()
    found = await listener.hear()
    await listener.close()
    return found


async def test_an_event_is_published_with_its_key(
    nats_server_program: Path, tmp_path: Path
) -> None:
    async with natsserver.nats(nats_server_program, tmp_path) as port:
        headers, body = await heard(port, lambda: sent(port))

    assert headers == {"Idempotency-Key": "0" * 32, "Nats-Msg-Id": "0" * 32}
    assert body["involvedObject"]["name"] == "shop"


SEED = bytes(range(32))


def seed(*, prefix: int = 20 << 3, damage: int = 0) -> str:
    """Return a seed as ``nk -gen user`` writes it."""
    raw = bytes([(18 << 3) | prefix >> 5, (prefix & 31) << 3]) + SEED
    check = binascii.crc_hqx(raw, 0) ^ damage
    return base64.b32encode(raw + check.to_bytes(2, "little")).decode().rstrip("=")


def public() -> str:
    """Return the public key of the seed."""
    key = Ed25519PrivateKey.from_private_bytes(SEED).public_key().public_bytes_raw()
    raw = bytes([20 << 3]) + key
    check = binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(raw + check).decode().rstrip("=")


USERS = (
    f'authorization {{ users = [ {{ user: me, password: "secret" }}, {{ nkey: "{public()}" }} ] }}'
)
LIMITED = (
    'authorization { users = [ { user: me, password: "secret",'
    ' permissions: { publish: "other.>", subscribe: ">" } } ] }'
)
ME = {"user": "me", "pass": "secret"}


@pytest.mark.parametrize(
    ("config", "login", "listens"),
    [
        (USERS, {"username": "me", "password": "secret"}, ME),
        (USERS, {"token": seed()}, ME),
        ('authorization { token: "s3cret" }', {"token": "s3cret"}, {"auth_token": "s3cret"}),
    ],
)
async def test_a_login_is_given(
    nats_server_program: Path,
    tmp_path: Path,
    config: str,
    login: dict[str, Any],
    listens: dict[str, str],
) -> None:
    async with natsserver.nats(nats_server_program, tmp_path, config) as port:
        _, body = await heard(port, lambda: sent(port, **login), **listens)

    assert body["reason"] == "ReconciliationSucceeded"


@pytest.mark.parametrize(
    ("config", "login", "why"),
    [
        (USERS, {"username": "me", "password": "wrong-password"}, "refuses the login"),
        (USERS, {}, "refuses the login"),
        ('authorization { token: "s3cret" }', {"token": "wrong-password"}, "refuses the login"),
        (LIMITED, {"username": "me", "password": "secret"}, "may not publish"),
    ],
)
async def test_a_login_that_is_refused_is_told(
    nats_server_program: Path, tmp_path: Path, config: str, login: dict[str, Any], why: str
) -> None:
    async with natsserver.nats(nats_server_program, tmp_path, config) as port:
        with pytest.raises(AuthError, match=why) as caught:
            await sent(port, **login)

    assert "wrong-password" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["nats", "tls"])
async def test_tls_is_spoken(
    nats_server_program: Path, tmp_path: Path, authority: trustme.CA, ca: bytes, scheme: str
) -> None:
    async with natsserver.nats(nats_server_program, tmp_path, authority=authority) as port:
        await sent(port, Endpoint(ca=ca), address=f"{scheme}://localhost:{port}")


async def test_a_server_that_cannot_prove_who_it_is_gets_nothing(
    nats_server_program: Path, tmp_path: Path, authority: trustme.CA, ca: bytes
) -> None:
    async with natsserver.nats(nats_server_program, tmp_path, authority=authority) as port:
        with pytest.raises(AuthError, match="TLS connection to"):
            await sent(port, Endpoint(ca=trustme.CA().cert_pem.bytes()))
        with pytest.raises(AuthError, match="TLS connection to"):
            await sent(port, Endpoint(ca=ca), address=f"tls://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("endpoint", "scheme"), [(Endpoint(), "nats"), (PLAIN, "tls")], ids=["flag", "scheme"]
)
async def test_nothing_is_said_without_tls_where_that_is_demanded(
    nats_server_program: Path, tmp_path: Path, endpoint: Endpoint, scheme: str
) -> None:
    async with natsserver.nats(nats_server_program, tmp_path) as port:
        with pytest.raises(AuthError, match="offers no TLS"):
            await sent(port, endpoint, address=f"{scheme}://localhost:{port}")


async def test_an_event_that_is_too_large_is_refused_for_good(
    nats_server_program: Path, tmp_path: Path
) -> None:
    async with natsserver.nats(nats_server_program, tmp_path, "max_payload: 100") as port:
        with pytest.raises(UnsuitableError, match="the server takes fewer"):
            await sent(port)


async def test_a_tenants_event_does_not_go_to_a_private_address(
    nats_server_program: Path, tmp_path: Path
) -> None:
    async with natsserver.nats(nats_server_program, tmp_path) as port:
        with pytest.raises(HttpError, match="private address"):
            await sent(port, replace(PLAIN, private=False))


async def test_a_proxy_is_refused(nats_server_program: Path, tmp_path: Path) -> None:
    async with natsserver.nats(nats_server_program, tmp_path) as port:
        with pytest.raises(UnsuitableError, match="through a proxy"):
            await sent(port, replace(PLAIN, proxy=Proxy(address="http://127.0.0.1:1")))


async def test_nobody_there_is_told() -> None:
    with pytest.raises(HttpError, match="cannot connect"):
        await sent(1)
