"""What anybody may send to our port, and what it does to others: nothing."""

import asyncio
import contextlib
import logging
import random
import ssl

import pytest

from tests.contract.apiserver.window import AS_ROOT, BASE, Reply, Window
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def ask(window: Window, path: str, **more: str) -> Reply:
    return await window.ask(path, certificate=window.front_proxy(), headers=AS_ROOT, **more)


REFUSED = [
    ("GET", "/nowhere", 404, "NotFound"),
    ("GET", f"{BASE}/cars", 404, "NotFound"),
    ("GET", "/apis/other.group/v1/toys", 404, "NotFound"),
    ("GET", f"{BASE}/namespaces/x/toys/a/nothing", 404, "NotFound"),
    ("GET", f"{BASE}/namespaces/x/toys/a/report/more", 404, "NotFound"),
    ("GET", f"{BASE}/namespaces/x/toys/a", 404, "NotFound"),
    ("POST", f"{BASE}/namespaces/x/toys", 405, "MethodNotAllowed"),
    ("DELETE", f"{BASE}/namespaces/x/toys/a", 405, "MethodNotAllowed"),
    ("PATCH", f"{BASE}/namespaces/x/toys/a", 405, "MethodNotAllowed"),
    ("POST", "/apis", 405, "MethodNotAllowed"),
    ("GET", f"{BASE}/toys?timeout=soon", 400, "BadRequest"),
    ("GET", f"{BASE}/toys?limit=1&limit=2", 400, "BadRequest"),
    ("GET", f"{BASE}/toys?fieldSelector=metadata.name%3Da&fieldSelector=", 400, "BadRequest"),
    ("GET", f"{BASE}/toys?labelSelector=%00", 400, "BadRequest"),
    ("GET", f"{BASE}/namespaces/x/inventories/a/plan?revision=b&revision=c", 400, "BadRequest"),
]


async def test_what_cannot_be_answered_is_told_as_a_status(window: Window) -> None:

    replies = [await ask(window, path, method=method) for method, path, _, _ in REFUSED]

    assert [(reply.status, reply.json["reason"]) for reply in replies] == [
        (code, reason) for _, _, code, reason in REFUSED
    ]
    for reply in replies:
        assert reply.json["kind"] == "Status"
        assert reply.headers["Cache-Control"] == "no-cache, private"
        assert reply.headers["Audit-ID"]


async def test_a_bug_is_told_without_what_it_was_about(
    window: Window, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: object) -> None:
        raise RuntimeError("the secret is hunter2")

    window.shop.handlers[window.namespace] = fail  # type: ignore[assignment] - it never returns

    reply = await ask(window, f"{BASE}/namespaces/{window.namespace}/toys/a/report")

    assert (reply.status, reply.json["reason"]) == (500, "InternalError")
    assert "hunter2" not in reply.body.decode() + caplog.text


async def test_a_large_body_is_not_read(window: Window) -> None:
    path = f"{BASE}/namespaces/x/toys/a/report"

    reply = await window.ask(
        path,
        method="POST",
        certificate=window.front_proxy(),
        headers=[*AS_ROOT, ("Content-Length", str(1 << 30))],
    )

    assert reply.status == 413


async def test_random_bytes_hurt_nobody(window: Window) -> None:
    chance = random.Random(7)  # noqa: S311 - the same noise in each run
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE

    for number in range(60):
        noise = chance.randbytes(chance.randrange(1, 4096))
        if number % 2:
            noise = b"GET /apis HTTP/1.1\r\nHost: x\r\n" + noise + b"\r\n\r\n"
        encrypted = {"ssl": tls, "ssl_handshake_timeout": 5} if number % 3 else {}
        _, writer = await asyncio.open_connection("127.0.0.1", window.port, **encrypted)
        writer.write(noise)
        writer.close()

    assert (await ask(window, BASE)).status == 200
    window.raise_failures()


async def test_nobody_fills_the_memory_with_headers(window: Window) -> None:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", window.port, ssl=tls)
    writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n")

    sent = 0
    with contextlib.suppress(ConnectionError):
        for number in range(64):
            writer.write(b"X-%d: %s\r\n" % (number, b"a" * 60_000))
            await writer.drain()
            sent += 60_000
        writer.write(b"\r\n")
        await writer.drain()
        answered = await reader.read(64)
        assert answered == b"", f"{sent} bytes of headers were read"
    writer.close()

    assert (await ask(window, BASE)).status == 200


async def test_a_malformed_header_is_not_written_down(
    window: Window, caplog: pytest.LogCaptureFixture
) -> None:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", window.port, ssl=tls)

    writer.write(b"GET /apis HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret-42\x01\r\n\r\n")
    answered = await reader.read()
    writer.close()

    assert answered.startswith(b"HTTP/1.0 400")
    assert "secret-42" not in caplog.text


@pytest.mark.parametrize(
    ("start", "code"),
    [
        (b"GET /" + b"x" * (80 << 10) + b" HTTP/1.1\r\n", 431),
        (b"GET / HTTP/1.1\r\nX-Long: " + b"x" * (80 << 10) + b"\r\n", 431),
        (b"FROB / HTTP/1.1\r\n", 405),
        (b"GET / HTTP/x.y\r\n", 400),
    ],
)
async def test_what_cannot_be_parsed_is_told_in_our_words(
    window: Window, start: bytes, code: int
) -> None:
    tls = window._tls(window.front_proxy())
    reader, writer = await asyncio.open_connection("127.0.0.1", window.port, ssl=tls)

    writer.write(start + b"Host: x\r\n\r\n")
    answer = await reader.read()
    writer.close()

    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(head.split()[1]) == code
    assert b"bytearray" not in body
    assert b"xxxx" not in body


async def test_each_request_leaves_one_line_without_content(
    window: Window, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="audit")
    window.shop.put(window.namespace, "bear")
    caplog.clear()

    path = f"{BASE}/namespaces/{window.namespace}/toys/bear"
    await window.ask(path, certificate=window.client_of("alice"))

    def of_alice() -> list[Json]:
        lines = [record.audit for record in caplog.records if record.name == "audit"]  # type: ignore[attr-defined] - the log's extra
        return [each for each in lines if each.get("user", {}).get("username") == "alice"]

    # It is written when the answer is sent.
    (line,) = await window.until(of_alice)
    assert line["responseStatus"] == {"code": 403}
    assert (line["stage"], line["level"], line["verb"]) == ("ResponseComplete", "Metadata", "get")
    assert line["objectRef"] == {
        "resource": "toys",
        "namespace": window.namespace,
        "name": "bear",
        "apiGroup": "gitops.penstock.dev",
        "apiVersion": "v1alpha1",
    }
