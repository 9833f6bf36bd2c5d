"""Connections through a proxy: the handshakes of HTTP CONNECT and of SOCKS 5.

aiohttp and urllib3 support HTTP proxies for HTTP servers. This module is for SOCKS (RFC 1928,
1929), and for any proxy in front of SSH. The proxy resolves host names.
"""

import re
import socket
import time
from typing import Final

from toolkit.remote import causes, dialling
from toolkit.remote.dialling import Reach
from toolkit.remote.errors import AuthError, HttpError
from toolkit.remote.proxy import Proxy

_MAX_ANSWER: Final = 16 << 10
_SOCKS_REFUSALS: Final = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
}


def connect(proxy: Proxy, host: str, port: int, *, timeout: float) -> socket.socket:
    """Open a connection to ``host`` through the proxy, all within ``timeout`` seconds.

    What is returned has that timeout for each step.

    Raises:
        HttpError: the proxy cannot be reached or does not connect.
        AuthError: the proxy requires valid credentials.

    """
    scheme, address = proxy.endpoint
    shake = {"http": _connect_http, "socks5": _connect_socks}.get(scheme)
    if shake is None:
        raise HttpError(f"a proxy of kind '{scheme}' is not supported here: use http or socks5")
    end = time.monotonic() + timeout
    try:
        connection = dialling.connect(address, timeout=timeout, reach=Reach.NOT_METADATA)
    except OSError as exc:
        told = f"cannot connect to the proxy {address[0]}:{address[1]}: {causes.cause(exc)}"
        raise HttpError(told) from exc
    try:
        shake(_Talk(connection, end), proxy, host, port)
        connection.settimeout(timeout)
    except OSError as exc:
        connection.close()
        told = f"the proxy did not connect to {host}:{port}: {causes.cause(exc)}"
        raise HttpError(told) from exc
    except BaseException:
        connection.close()
        raise
    return connection


class _Talk:
    """Bytes to and from a proxy until ``end``, however slowly they come."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        self._connection = connection
        self._end = end

    def send(self, data: bytes) -> None:
        self._hurry()
        self._connection.sendall(data)

    def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            self._hurry()
            piece = self._connection.recv(size - len(data))
            if not piece:
                raise HttpError("the proxy closed the connection")
            data += piece
        return data

    def _hurry(self) -> None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._connection.settimeout(left)


def _connect_http(talk: _Talk, proxy: Proxy, host: str, port: int) -> None:
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.authorization is not None:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    talk.send(("\r\n".join(lines) + "\r\n\r\n").encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        # One byte at a time: bytes after the answer already belong to the server.
        answer += talk.receive(1)
        if len(answer) > _MAX_ANSWER:
            raise HttpError(f"the proxy did not answer the request for {host}:{port}")
    status = answer.split(b" ", 2)[1:2]
    if status == [b"407"]:
        raise AuthError("the proxy requires valid credentials")
    if status != [b"200"]:
        # The line is not quoted: a tenant may name any server as proxy.
        known = len(status) == 1 and re.fullmatch(rb"[1-5][0-9]{2}", status[0])
        shown = f"HTTP {status[0].decode()}" if known else causes.NOT_HTTP
        raise HttpError(f"the proxy did not connect to {host}:{port}: {shown}")


def _connect_socks(talk: _Talk, proxy: Proxy, host: str, port: int) -> None:
    methods = b"\x00" if proxy.username is None else b"\x00\x02"
    talk.send(bytes([5, len(methods)]) + methods)
    version, method = talk.receive(2)
    if version != 5 or method not in methods:
        raise AuthError("the proxy requires valid credentials")
    if method == 2:
        fields = (proxy.username or "").encode(), (proxy.password or "").encode()
        talk.send(b"\x01" + b"".join(bytes([len(f)]) + f for f in fields))
        if talk.receive(2)[1] != 0:
            raise AuthError("the proxy requires valid credentials")
    name = host.encode("idna")
    talk.send(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + port.to_bytes(2))
    _, refusal, _, kind = talk.receive(4)
    if refusal:
        why = _SOCKS_REFUSALS.get(refusal, f"error {refusal}")
        raise HttpError(f"the proxy did not connect to {host}:{port}: {why}")
    bound = {1: 4, 4: 16}.get(kind) or talk.receive(1)[0]
    talk.receive(bound + 2)
