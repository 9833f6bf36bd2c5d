"""Connections through a proxy: the handshakes of HTTP CONNECT and of SOCKS 5.

urllib3 speaks HTTP proxies for HTTP servers by itself. This is for what it does not do without
another library: SOCKS (RFC 1928, 1929), and any proxy in front of SSH. Host names are resolved by
the proxy.
"""

import socket
from base64 import b64encode
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from toolkit.remote.gitauth import Proxy
from toolkit.remote.giterrors import GitAuthError, GitError
from toolkit.remote.giturl import GitUrl

_DEFAULT_PORTS: Final = {"http": 80, "https": 443, "socks5": 1080}
_MAX_ANSWER: Final = 16 << 10
_SOCKS_REFUSALS: Final = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
}


def for_url(url: GitUrl, given: Proxy | None) -> Proxy | None:
    """Return the proxy to use: the given one, else over HTTP what the environment says.

    ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY`` are the operator's setting for the process.
    """
    if given is not None or url.scheme == "ssh":
        return given
    address = getproxies().get(url.scheme)
    if not address or proxy_bypass(f"{url.host}:{url.port}"):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    host = parts.netloc.rpartition("@")[2]
    return Proxy(
        address=f"{parts.scheme}://{host}", username=parts.username, password=parts.password
    )


def connect(proxy: Proxy, host: str, port: int, *, timeout: float) -> socket.socket:
    """Open a connection to ``host`` through the proxy; ``timeout`` is in seconds, for each step.

    Raises:
        GitError: the proxy cannot be reached or does not connect.
        GitAuthError: it wants other credentials.

    """
    scheme, address = endpoint(proxy)
    shake = {"http": _connect_http, "socks5": _connect_socks}.get(scheme)
    if shake is None:
        raise GitError(f"a proxy of kind '{scheme}' is not possible here: use http or socks5")
    try:
        connection = socket.create_connection(address, timeout)
    except OSError as exc:
        raise GitError(f"cannot connect to the proxy {address[0]}:{address[1]}: {exc}") from exc
    try:
        shake(connection, proxy, host, port)
    except OSError as exc:
        connection.close()
        raise GitError(f"the proxy did not connect to {host}:{port}: {exc}") from exc
    except BaseException:
        connection.close()
        raise
    return connection


def endpoint(proxy: Proxy) -> tuple[str, tuple[str, int]]:
    """Return the proxy's scheme and where it listens."""
    try:
        parts = urlsplit(proxy.address)
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
    except (ValueError, KeyError) as exc:
        raise GitAuthError("the proxy's address is not a URL") from exc
    return parts.scheme, (parts.hostname or "", port)


def basic(username: str, password: str | None) -> str:
    """Return the value of a Basic authorization header (RFC 7617)."""
    return "Basic " + b64encode(f"{username}:{password or ''}".encode()).decode()


def _connect_http(connection: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username is not None:
        lines.append(f"Proxy-Authorization: {basic(proxy.username, proxy.password)}")
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        # A byte at a time: what follows the answer already belongs to the server.
        byte = connection.recv(1)
        answer += byte
        if not byte or len(answer) > _MAX_ANSWER:
            raise GitError(f"the proxy did not answer the request for {host}:{port}")
    status = answer.split(b" ", 2)[1:2]
    if status == [b"407"]:
        raise GitAuthError("the proxy wants other credentials")
    if status != [b"200"]:
        shown = answer.split(b"\r\n")[0][:100].decode("ascii", "replace")
        raise GitError(f"the proxy did not connect to {host}:{port}: {shown}")


def _connect_socks(connection: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    methods = b"\x00" if proxy.username is None else b"\x00\x02"
    connection.sendall(bytes([5, len(methods)]) + methods)
    version, method = _receive(connection, 2)
    if version != 5 or method not in methods:
        raise GitAuthError("the proxy wants other credentials")
    if method == 2:
        fields = (proxy.username or "").encode(), (proxy.password or "").encode()
        connection.sendall(b"\x01" + b"".join(bytes([len(f)]) + f for f in fields))
        if _receive(connection, 2)[1] != 0:
            raise GitAuthError("the proxy wants other credentials")
    name = host.encode("idna")
    connection.sendall(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + port.to_bytes(2))
    _, refusal, _, kind = _receive(connection, 4)
    if refusal:
        why = _SOCKS_REFUSALS.get(refusal, f"error {refusal}")
        raise GitError(f"the proxy did not connect to {host}:{port}: {why}")
    bound = {1: 4, 4: 16}.get(kind) or _receive(connection, 1)[0]
    _receive(connection, bound + 2)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise GitError("the proxy closed the connection")
        data += piece
    return data
