"""aiohttp's own contexts trust as before, once they are asked; until then they hold nothing."""

import ssl
from pathlib import Path

import aiohttp
import pytest
from aiohttp import connector, web

from tests.fakes.serving import serving
from toolkit.remote import systemtrust

Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


@pytest.fixture
def deferred(ca: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Contexts:
    """Return the contexts of a process for which the test's authority is the system's."""
    place = tmp_path / "ca.pem"
    place.write_bytes(ca)
    monkeypatch.setenv("SSL_CERT_FILE", str(place))
    for name, verified in (("_SSL_CONTEXT_VERIFIED", True), ("_SSL_CONTEXT_UNVERIFIED", False)):
        monkeypatch.setattr(connector, name, connector._make_ssl_context(verified))
    systemtrust.defer()
    return connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED


async def _answer(_: web.Request) -> web.Response:
    return web.Response(text="seen")


async def _ask(port: int, host: str = "localhost") -> str:
    async with aiohttp.ClientSession() as session, session.get(f"https://{host}:{port}/") as found:
        return await found.text()


async def test_authorities_are_read_when_a_connection_needs_them(
    deferred: Contexts, server_tls: ssl.SSLContext
) -> None:
    before = [context.cert_store_stats()["x509"] for context in deferred]

    async with serving(_answer, tls=server_tls) as port:
        assert await _ask(port) == "seen"
        assert await _ask(port) == "seen"

    assert before == [0, 0]
    assert deferred[0].cert_store_stats()["x509"] == 1


@pytest.mark.usefixtures("deferred")
async def test_a_server_by_another_name_is_refused(server_tls: ssl.SSLContext) -> None:
    async with serving(_answer, tls=server_tls) as port:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await _ask(port, "127.0.0.1")


@pytest.mark.usefixtures("deferred")
async def test_a_server_that_the_system_does_not_trust_is_refused(
    server_tls: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "empty.pem"))

    async with serving(_answer, tls=server_tls) as port:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await _ask(port)


def test_nothing_but_the_moment_differs(deferred: Contexts) -> None:
    fresh = (ssl.create_default_context(), connector._make_ssl_context(False))  # noqa: FBT003

    for found, wanted in zip(deferred, fresh, strict=True):
        assert _settings(found) == _settings(wanted)


def _settings(context: ssl.SSLContext) -> tuple[object, ...]:
    return (
        *(context.check_hostname, context.verify_mode, context.verify_flags, context.options),
        *(context.minimum_version, context.maximum_version, context.protocol),
        [cipher["name"] for cipher in context.get_ciphers()],
    )
