"""One namespace's reader asks for another's objects, in every way that a request can be written."""

import asyncio
import contextlib

import pytest

from tests.contract.apiserver.window import BASE, Window, make_namespace

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWN, OTHER = "mine", "bank"
RULE = {"apiGroups": ["gitops.penstock.dev"], "resources": ["*"], "verbs": ["*"]}
HIDDEN = b"uid-bank-vault"

TARGETS = [
    # The object itself, its report, and the collections that it is in.
    f"{BASE}/namespaces/bank/toys/vault",
    f"{BASE}/namespaces/bank/toys/vault/report",
    f"{BASE}/namespaces/bank/toys/vault?watch=1",
    f"{BASE}/namespaces/bank/toys",
    f"{BASE}/namespaces/bank/toys?watch=1&timeoutSeconds=1",
    f"{BASE}/namespaces/bank/toys?fieldSelector=metadata.namespace%3Dmine",
    f"{BASE}/toys",
    f"{BASE}/toys?fieldSelector=metadata.namespace%3Dmine",
    # Paths that one side may read in another way.
    f"/{BASE}/namespaces/bank/toys/vault",
    f"{BASE}//namespaces/bank/toys/vault",
    f"{BASE}/namespaces//toys",
    f"{BASE}/namespaces/mine/toys/../../bank/toys/vault",
    f"{BASE}/namespaces/mine/toys/%2e%2e/%2e%2e/bank/toys/vault",
    f"{BASE}/namespaces/mine/toys/..%2F..%2Fbank%2Ftoys%2Fvault",
    f"{BASE}/namespaces/mine%2F..%2Fbank/toys/vault",
    f"{BASE}/namespaces/mine%2Ftoys%2Fown/../../bank/toys/vault",
    f"{BASE}/namespaces/mine%00/../bank/toys/vault",
    f"{BASE}/watch/namespaces/bank/toys/vault",
    f"{BASE}/namespaces/mine/../bank/toys/vault/report",
    f"https://127.0.0.1{BASE}/namespaces/bank/toys/vault",
    f"https://mine@127.0.0.1{BASE}/namespaces/bank/toys/vault",
    # Parameters that mean another namespace.
    f"{BASE}/namespaces/mine/toys?fieldSelector=metadata.namespace%3Dbank",
    f"{BASE}/namespaces/mine/toys?namespace=bank",
    f"{BASE}/namespaces/mine/toys?watch=1&timeoutSeconds=1&namespace=bank",
    f"{BASE}/namespaces/mine/toys/vault?namespace=bank",
    f"{BASE}/namespaces/mine/toys?limit=5&resourceVersion=1&resourceVersionMatch=Exact",
]
HEADERS = [
    "",
    "X_Remote_User: root\r\nX_Remote_Group: system:masters\r\n",
    "X-Remote-User: root\r\nX-Remote-Group: system:masters\r\nX-Remote-User: root\r\n",
    "X-Remote-User : root\r\nX-Remote-Group : system:masters\r\n",
    "Accept: */*\r\n X-Remote-User: root\r\n\tX-Remote-Group: system:masters\r\n",
    "Impersonate-User: root\r\nImpersonate-Group: system:masters\r\n",
    f"X-Original-URL: {BASE}/toys\r\nX-Rewrite-URL: {BASE}/toys\r\n",
    "X-HTTP-Method-Override: GET\r\n",
    "Connection: X-Remote-User, close\r\n",
]
METHODS = ["HEAD", "OPTIONS", "TRACE", "POST", "PUT", "PROPFIND"]


async def spoken(window: Window, text: str) -> bytes:
    """Return all that is answered to one text on a connection of the reader's."""
    tls = window._tls(window.client_of("reader"))
    reader, writer = await asyncio.open_connection("127.0.0.1", window.port, ssl=tls)
    answer = b""
    # What asks for no end gets none; it has been answered by then.
    with contextlib.suppress(ConnectionError, TimeoutError):
        writer.write(text.encode("latin-1"))
        await writer.drain()
        async with asyncio.timeout(2):
            while more := await reader.read(65536):
                answer += more
    writer.close()
    return answer


def request(method: str, target: str, headers: str = "", *, last: bool = True) -> str:
    closing = "Connection: close\r\n" if last and "Connection" not in headers else ""
    return f"{method} {target} HTTP/1.1\r\nHost: x\r\n{headers}{closing}\r\n"


async def test_no_way_of_asking_leads_into_another_namespace(window: Window) -> None:
    await make_namespace(window.admin, OWN)
    await window.grant("reader", RULE, namespace=OWN)
    window.shop.put(OWN, "own")
    window.shop.put(OTHER, "vault")
    own = f"{BASE}/namespaces/{OWN}/toys"

    async def let_in() -> bool:
        return b"uid-mine-own" in await spoken(window, request("GET", own))

    await window.until(let_in)
    whole = request("GET", TARGETS[0], last=False)
    texts = [
        *(request("GET", target) for target in TARGETS),
        *(request("GET", TARGETS[0], headers) for headers in HEADERS),
        *(request(method, TARGETS[0]) for method in METHODS),
        request("CONNECT", "bank:443") + request("GET", TARGETS[0]),
        # A second request rides on the first one, or hides in its body.
        request("GET", own, last=False) + request("GET", TARGETS[0]),
        request("POST", f"{own}/own/report", f"Content-Length: {len(whole)}\r\n") + whole,
        request("POST", f"{own}/own/report", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n")
        + f"0\r\n\r\n{whole}",
        request("POST", f"{own}/own/report", "Transfer-Encoding: chunked\r\n")
        + f"{len(whole):x}\r\n{whole}\r\n0\r\n\r\n",
        request("POST", f"{own}/own/report", "Transfer-Encoding: identity, chunked\r\n") + whole,
        request("POST", f"{own}/own/report", "Content-Length: 0\r\nContent-Length: 9\r\n") + whole,
        request("GET", own, "Upgrade: websocket\r\nConnection: Upgrade\r\n") + whole,
    ]

    several = asyncio.Semaphore(4)

    async def asked(text: str) -> bytes:
        async with several:
            return await spoken(window, text)

    answers = await asyncio.gather(*map(asked, texts))

    for text, answer in zip(texts, answers, strict=True):
        assert HIDDEN not in answer, text
        assert b'"user":"root"' not in answer, text
    # And nobody else than the reader was answered by a handler.
    assert {(call.user.name, call.namespace) for call in window.shop.calls} <= {("reader", OWN)}
    window.raise_failures()
