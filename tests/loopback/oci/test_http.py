"""Who is asked, who is told what, and how long we wait: the rules of ``toolkit.remote.http``."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trustme
from aiohttp import web

from tests.fakes import gitserver
from tests.fakes.serving import Handler, certified, serving
from tests.loopback.oci.bench import PLAIN
from toolkit.remote.http.http import AuthError, Endpoint, Http, HttpError, Proxy, read

ADA = Endpoint(username="ada", password="hunter2", plain_http=True)


@dataclass
class Site:
    """A web server, and the requests that it got."""

    base: str
    seen: list[web.Request] = field(default_factory=list)


@asynccontextmanager
async def site(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    running = Site("")

    async def handle(request: web.Request) -> web.StreamResponse:
        running.seen.append(request)
        return await handler(request)

    async with serving(handle, tls=tls) as port:
        running.base = f"{'https' if tls else 'http'}://localhost:{port}"
        yield running


async def hello(_: web.Request) -> web.StreamResponse:
    return web.Response(text="hello")


def to(location: str, status: int = 302) -> Handler:
    async def redirect(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"Location": location})

    return redirect


async def get(http: Http, url: str, endpoint: Endpoint = PLAIN, *, timeout: float = 10) -> bytes:  # noqa: ASYNC109  # passed on
    async with http.request("GET", url, endpoint=endpoint, timeout=timeout) as response:
        return await read(response, limit=1 << 20)


async def test_answer_is_read(http: Http) -> None:
    async with site(hello) as server:
        body = await get(http, f"{server.base}/a?b=c%2Fd")

    assert body == b"hello"
    assert server.seen[0].raw_path == "/a?b=c%2Fd"


async def test_credentials_follow_a_redirect_within_the_origin(http: Http) -> None:
    async def turn(request: web.Request) -> web.StreamResponse:
        return await (hello if request.path == "/b" else to("/b"))(request)

    async with site(turn) as server:
        await get(http, f"{server.base}/a", ADA)

    assert [bool(request.headers.get("Authorization")) for request in server.seen] == [True, True]


async def test_credentials_do_not_follow_a_redirect_to_another_origin(http: Http) -> None:
    async with site(hello) as other, site(to(f"{other.base}/b")) as server:
        body = await get(http, f"{server.base}/a", ADA)

    assert body == b"hello"
    assert "Authorization" in server.seen[0].headers
    assert "Authorization" not in other.seen[0].headers


async def test_credentials_follow_to_another_origin_if_told_to(http: Http) -> None:
    endpoint = Endpoint(username="ada", password="hunter2", plain_http=True, pass_credentials=True)
    async with site(hello) as other, site(to(f"{other.base}/b")) as server:
        await get(http, f"{server.base}/a", endpoint)

    assert "Authorization" in other.seen[0].headers


async def test_credentials_do_not_come_back_from_a_detour(http: Http) -> None:
    async def end(request: web.Request) -> web.StreamResponse:
        return await (hello if request.path == "/end" else to(away.base))(request)

    async with site(end) as server:

        async def back(_: web.Request) -> web.StreamResponse:
            return web.Response(status=302, headers={"Location": f"{server.base}/end"})

        async with site(back) as away:
            await get(http, f"{server.base}/a", ADA)

    assert server.seen[1].path == "/end"
    assert "Authorization" not in server.seen[1].headers


async def test_client_certificate_is_not_shown_to_another_origin(
    http: Http, authority: trustme.CA, ca: bytes
) -> None:
    asking = certified(authority, "localhost", clients=ssl.CERT_OPTIONAL)
    shown: list[object] = []

    async def look(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        shown.append(request.transport.get_extra_info("peercert"))
        return await hello(request)

    ours = authority.issue_cert("ada@example.com")
    endpoint = Endpoint(
        ca=ca,
        client_cert=ours.cert_chain_pems[0].bytes(),
        client_key=ours.private_key_pem.bytes(),
    )
    async with site(look, tls=asking) as other:

        async def turn(request: web.Request) -> web.StreamResponse:
            await look(request)
            return web.Response(status=302, headers={"Location": other.base})

        async with site(turn, tls=asking) as server:
            await get(http, server.base, endpoint)

    assert [bool(cert) for cert in shown] == [True, False]


async def test_https_is_not_left_for_http(
    http: Http, server_tls: ssl.SSLContext, ca: bytes
) -> None:
    async with site(hello) as other, site(to(other.base), tls=server_tls) as server:
        with pytest.raises(HttpError, match="from https to http"):
            await get(http, server.base, Endpoint(ca=ca, plain_http=True))

    assert other.seen == []


async def test_plain_http_is_refused_unless_allowed(http: Http) -> None:
    async with site(hello) as server:
        with pytest.raises(HttpError, match="plain HTTP"):
            await get(http, server.base, Endpoint())

    assert server.seen == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_end(http: Http, status: int) -> None:
    async with site(to("/again", status)) as server:
        with pytest.raises(HttpError, match="too often"):
            await get(http, server.base)

    assert len(server.seen) == 6


async def test_a_body_is_never_redirected(http: Http) -> None:
    async with (
        site(hello) as other,
        site(to(other.base, 307)) as server,
        http.request("POST", server.base, endpoint=ADA, body=b"secret", timeout=10) as response,
    ):
        status = response.status

    assert status == 307
    assert other.seen == []


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
    ],
)
async def test_redirect_from_a_public_host_to_a_private_address_is_refused(
    http: Http, location: str
) -> None:
    # Behind the proxy is the internet: its host names count as public.
    async with gitserver.proxy() as proxy, site(hello) as inside:
        port = inside.base.rpartition(":")[2]
        async with site(to(location.format(port=port))) as server:
            outside = f"http://registry.example.com:{server.base.rpartition(':')[2]}/"
            endpoint = Endpoint(
                username="ada",
                password="hunter2",
                plain_http=True,
                pass_credentials=True,
                proxy=Proxy(address=proxy.address),
            )
            with pytest.raises(HttpError, match="private address"):
                await get(http, outside, endpoint)

    assert len(server.seen) == 1
    assert inside.seen == []


async def test_redirect_to_a_link_local_address_is_refused_from_anywhere(http: Http) -> None:
    async with site(to("http://169.254.169.254/latest/meta-data/")) as server:
        with pytest.raises(HttpError, match="a metadata service"):
            await get(http, server.base)


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]"])
async def test_user_cannot_have_a_metadata_service_asked(http: Http, host: str) -> None:
    with pytest.raises(HttpError, match="a metadata service"):
        await get(http, f"http://{host}/latest/user-data", ADA)


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_user_cannot_have_a_metadata_service_for_a_proxy(http: Http, scheme: str) -> None:
    proxy = Proxy(address=f"{scheme}://169.254.169.254:80")

    with pytest.raises(HttpError, match="a metadata service"):
        await get(http, "http://registry.example.com/", Endpoint(plain_http=True, proxy=proxy))


async def test_proxy_that_says_nothing_holds_no_thread_that_others_need(http: Http) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    asked, enough = asyncio.Event(), asyncio.Event()

    async def dawdle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(3)
        asked.set()
        await enough.wait()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(dawdle, "127.0.0.1", 0) as proxy:
        address = f"socks5://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        endpoint = Endpoint(plain_http=True, proxy=Proxy(address=address))
        held = asyncio.create_task(get(http, "http://registry.example.com/", endpoint))
        await asked.wait()

        read = await asyncio.wait_for(asyncio.to_thread(lambda: "a file"), 5)
        enough.set()

        assert read == "a file"
        with pytest.raises(HttpError, match="closed the connection"):
            await held


@pytest.mark.parametrize(
    "location",
    [
        "",
        "ftp://localhost/",
        "http://u:p@localhost/",
        "http://localhost:x/",
        "http://[::1",
        "http://a..b/",
        f"http://{'a' * 70}.example.com/",
        "http://local%0d%0ahost/",
    ],
)
async def test_redirect_to_nowhere_is_refused(http: Http, location: str) -> None:
    async with site(to(location)) as server:
        with pytest.raises(HttpError):
            await get(http, server.base)

    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/\r\nX-Evil: 1",
        "http://localhost/a b",
        "http://localhost/\u00e9",
        "file:///etc/passwd",
        "http://ada:hunter2@localhost/",
        f"http://localhost/{'a' * 9000}",
    ],
)
async def test_url_that_is_none_is_not_asked_for(http: Http, url: str) -> None:
    with pytest.raises(HttpError) as caught:
        await get(http, url)

    assert "hunter2" not in str(caught.value)


async def test_token_that_is_no_header_is_refused(http: Http) -> None:
    endpoint = Endpoint(bearer_token="abc\r\nX-Evil: 1", plain_http=True)
    async with site(hello) as server:
        with pytest.raises(AuthError, match="bearer token"):
            await get(http, server.base, endpoint)

    assert server.seen == []


@pytest.mark.parametrize("status", [401, 403])
async def test_refusal_is_an_authentication_failure_without_the_secret(
    http: Http, status: int
) -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        complaint = {"errors": [{"code": request.headers["Authorization"], "message": "hunter2"}]}
        return web.json_response(complaint, status=status)

    async with site(echo) as server:
        with pytest.raises(AuthError, match="refused the credentials") as caught:
            await get(http, f"{server.base}/a?token=hunter2", ADA)

    assert caught.value.reason == "AuthenticationFailed"
    assert "hunter2" not in str(caught.value)
    assert "YWRhOmh1bnRlcjI" not in str(caught.value)


async def test_code_of_a_registry_is_told(http: Http) -> None:
    async def complain(_: web.Request) -> web.StreamResponse:
        return web.json_response({"errors": [{"code": "DENIED"}]}, status=403)

    async with site(complain) as server:
        with pytest.raises(AuthError, match="HTTP 403 DENIED"):
            await get(http, server.base)


def busy(times: int, status: int, retry_after: str) -> Handler:
    left = [times]

    async def handle(request: web.Request) -> web.StreamResponse:
        if left[0]:
            left[0] -= 1
            return web.Response(status=status, headers={"Retry-After": retry_after})
        return await hello(request)

    return handle


@pytest.mark.parametrize("status", [429, 503])
async def test_short_patience_is_waited_for(http: Http, status: int) -> None:
    async with site(busy(2, status, "0")) as server:
        body = await get(http, server.base)

    assert body == b"hello"
    assert len(server.seen) == 3


async def test_patience_ends(http: Http) -> None:
    async with site(busy(100, 429, "0")) as server:
        with pytest.raises(HttpError, match="HTTP 429"):
            await get(http, server.base)

    assert len(server.seen) == 4


async def test_server_that_wants_long_patience_is_left_alone(http: Http) -> None:
    async with site(busy(100, 429, "120")) as server:
        with pytest.raises(HttpError) as first:
            await get(http, server.base, ADA, timeout=600)
        with pytest.raises(HttpError, match="asked for a pause") as second:
            await get(http, server.base, ADA)
        with contextlib.suppress(HttpError):
            await get(http, server.base, PLAIN)

    assert first.value.retry_after == 120
    assert 0 < (second.value.retry_after or 0) <= 120
    assert [bool(request.headers.get("Authorization")) for request in server.seen] == [True, False]


async def test_unavailable_server_without_a_date_is_not_asked_again(http: Http) -> None:
    async with site(busy(1, 503, "")) as server:
        with pytest.raises(HttpError) as caught:
            await get(http, server.base)

    assert caught.value.status == 503
    assert len(server.seen) == 1


async def test_slow_answer_ends_at_the_deadline(http: Http) -> None:
    async def trickle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b".")
            await asyncio.sleep(0.01)

    async with site(trickle) as server:
        with pytest.raises(HttpError, match="in time"):
            await get(http, server.base, timeout=0.3)


async def test_endless_body_is_cut_off(http: Http) -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(1 << 16))

    async with site(flood) as server:
        with pytest.raises(HttpError, match="more than 1048576 bytes"):
            await get(http, server.base)


async def test_compressed_body_stays_as_it_is(http: Http) -> None:
    async def packed(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"\x1f\x8bnot unpacked", headers={"Content-Encoding": "gzip"})

    async with site(packed) as server:
        body = await get(http, server.base)

    assert body == b"\x1f\x8bnot unpacked"


async def test_unknown_certificate_is_an_authentication_failure(
    http: Http, server_tls: ssl.SSLContext
) -> None:
    async with site(hello, tls=server_tls) as server:
        with pytest.raises(AuthError, match="TLS connection to"):
            await get(http, server.base, Endpoint())


async def test_server_that_is_down_is_named(http: Http) -> None:
    with pytest.raises(HttpError, match="localhost:1"):
        await get(http, "http://localhost:1/")


Starter = Callable[..., AbstractAsyncContextManager[gitserver.Proxy]]
KINDS = pytest.mark.parametrize("start", [gitserver.proxy, gitserver.socks_proxy])


@KINDS
@pytest.mark.parametrize("login", [None, ("ada", "hunter2")])
async def test_requests_go_through_the_proxy(
    http: Http,
    server_tls: ssl.SSLContext,
    ca: bytes,
    start: Starter,
    login: tuple[str, str] | None,
) -> None:
    username, password = login or (None, None)
    async with start(basic=login) as running, site(hello, tls=server_tls) as server:
        proxy = Proxy(address=running.address, username=username, password=password)

        body = await get(http, server.base, Endpoint(ca=ca, bearer_token="t", proxy=proxy))

    assert body == b"hello"
    assert len(running.targets) == 1
    assert "Proxy-Authorization" not in server.seen[0].headers


@KINDS
async def test_plain_requests_go_through_the_proxy_by_name(http: Http, start: Starter) -> None:
    async with start() as running, site(hello) as server:
        outside = f"http://www.example.com:{server.base.rpartition(':')[2]}/"
        endpoint = Endpoint(plain_http=True, proxy=Proxy(address=running.address))

        body = await get(http, outside, endpoint)

    assert body == b"hello"
    assert "www.example.com" in running.targets[0]
    assert server.seen[0].host.startswith("www.example.com:")


@KINDS
async def test_certificate_behind_a_proxy_is_checked(
    http: Http,
    server_tls: ssl.SSLContext,
    start: Starter,
) -> None:
    async with start() as running, site(hello, tls=server_tls) as server:
        with pytest.raises(AuthError, match="TLS connection to"):
            await get(http, server.base, Endpoint(proxy=Proxy(address=running.address)))


@KINDS
async def test_proxy_that_is_down_is_told(http: Http, start: Starter) -> None:
    async with start() as running:
        proxy = Proxy(address=running.address)

    with pytest.raises(HttpError, match="proxy"):
        await get(http, "https://www.example.com/", Endpoint(proxy=proxy))


@KINDS
async def test_refusing_proxy_is_an_authentication_failure(
    http: Http,
    server_tls: ssl.SSLContext,
    ca: bytes,
    start: Starter,
) -> None:
    async with start(basic=("a", "b")) as running, site(hello, tls=server_tls) as server:
        endpoint = Endpoint(ca=ca, proxy=Proxy(address=running.address))
        with pytest.raises(AuthError, match="proxy requires valid credentials"):
            await get(http, server.base, endpoint)


async def test_pools_that_are_idle_are_closed_for_others(ca: bytes) -> None:
    async with site(hello) as server, Http(pools=1) as small:
        await get(small, server.base, PLAIN)
        await get(small, server.base, Endpoint(ca=ca, plain_http=True))
        body = await get(small, server.base, PLAIN)

    assert body == b"hello"
