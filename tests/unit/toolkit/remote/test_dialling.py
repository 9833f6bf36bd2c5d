"""Which addresses are dialled for strangers, and that nobody dials past the rule."""

import ast
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolkit.remote import dialling
from toolkit.remote.dialling import Known, OutOfReachError, Reach
from toolkit.remote.git.dial import Dial
from toolkit.remote.git.errors import GitError
from toolkit.remote.proxy import Proxy

ROOT = Path(__file__).parents[4]
PACKAGES = ("apiserver", "certs", "controllers", "crds", "toolkit", "webhooks")
OPENERS = frozenset(
    {
        "aiohttp.ClientSession",
        "aiohttp.TCPConnector",
        "aiohttp.UnixConnector",
        "aiohttp.request",
        "asyncio.open_connection",
        "asyncio.open_unix_connection",
        "asyncssh.connect",
        "http.client.HTTPConnection",
        "http.client.HTTPSConnection",
        "socket.create_connection",
        "socket.socket",
        "tuf.ngclient.urllib3_fetcher.Urllib3Fetcher",
        "urllib.request.urlopen",
        "urllib3.PoolManager",
        "urllib3.ProxyManager",
    }
)
METHODS = frozenset({"create_connection", "sock_connect", "connect_ex"})
KNOWN = {
    # The rule itself,
    "toolkit/remote/dialling.py": {"socket.create_connection"},
    "toolkit/remote/http/reach.py": {"aiohttp.TCPConnector", "sock_connect", "socket.socket"},
    # who goes by it,
    "apiserver/artifacts/blobs.py": {"aiohttp.ClientSession"},
    "controllers/notification/sending/asking.py": {"asyncio.open_connection"},
    "toolkit/artifact/fetch.py": {"aiohttp.ClientSession"},
    "toolkit/kube/transport.py": {"aiohttp.ClientSession"},
    "toolkit/remote/git/http.py": {"urllib3.PoolManager", "urllib3.ProxyManager"},
    "toolkit/remote/git/ssh.py": {"asyncssh.connect", "create_connection"},
    "toolkit/remote/http/http.py": {"aiohttp.ClientSession"},
    "toolkit/remote/http/socks.py": {"aiohttp.TCPConnector", "create_connection"},
    "toolkit/remote/objectstore/http.py": {"aiohttp.ClientSession"},
    # who asks what the operator names,
    "apiserver/inventories/plans.py": {"aiohttp.ClientSession", "aiohttp.TCPConnector"},
    "controllers/planning/revisions.py": {"aiohttp.ClientSession"},
    "toolkit/forwarding.py": {"aiohttp.ClientSession"},
    "toolkit/verify/cosign/publicroot.py": {"tuf.ngclient.urllib3_fetcher.Urllib3Fetcher"},
    # and who listens.
    "toolkit/net/accepting.py": {"socket.socket"},
    "toolkit/net/reserving.py": {"socket.socket"},
}
"""Who opens connections. A new one goes by the rule, and has its row in docs/security.md."""


@pytest.fixture
def near() -> Iterator[socket.socket]:
    """Listen at a private address: what must not be dialled is seen to be left alone."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)  # noqa: FBT003  # the socket module's signature
        yield listening


def untouched(listening: socket.socket) -> bool:
    """Tell whether nobody has connected; on loopback a connection is there at once."""
    try:
        connection, _ = listening.accept()
    except BlockingIOError:
        return True
    connection.close()
    return False


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433"])
def test_what_is_out_of_reach_is_not_dialled(near: socket.socket, host: str) -> None:
    place = (host, near.getsockname()[1])

    with pytest.raises(OutOfReachError, match="is a private address"):
        dialling.connect(place, timeout=5, reach=Reach.PUBLIC)

    assert untouched(near)
    dialling.connect(place, timeout=5, reach=Reach.NOT_METADATA).close()
    assert not untouched(near)


@pytest.mark.parametrize("host", ["169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254"])
def test_metadata_service_is_not_dialled(host: str) -> None:
    with pytest.raises(OutOfReachError, match="is a metadata service's address"):
        dialling.connect((host, 80), timeout=5, reach=Reach.NOT_METADATA)


@pytest.mark.parametrize("host", ["metadata.google.internal", "Metadata.Google.Internal."])
def test_metadata_service_is_known_by_its_name_where_a_proxy_resolves_it(host: str) -> None:
    assert not dialling.literal_within(host, Reach.NOT_METADATA)
    assert dialling.literal_within(host, Reach.ANYWHERE)


@pytest.mark.parametrize(
    "host",
    [
        *("2852039166", "0xa9fea9fe", "0XA9.0xFE.43518", "0251.0376.0251.0376", "169.254.43518"),
        *("169.254.169.254.", "169\u3002254\uff0e169\uff61254", "%31%36%39.254.169.254"),
        *("64:ff9b:1::a9fe:a9fe", "::ffff:0:169.254.169.254", "[fe80::1%25eth0]"),
        *("metadata\u3002google\uff0einternal", "\uff4detadata.google.internal", "m%65tadata.goog"),
    ],
)
def test_metadata_service_is_known_however_a_proxy_would_read_its_address(host: str) -> None:
    dial = Dial(reach=Reach.NOT_METADATA, known=Known(), proxy=Proxy(address="http://127.0.0.1:1"))

    assert not dialling.literal_within(host, Reach.NOT_METADATA)
    with pytest.raises(GitError, match="is a metadata service's address"):
        dial(host, 80, timeout=5)


@pytest.mark.parametrize("host", ["3232235777", "0x7f.1", "fec0::1", "4000::1", "::1", "::8.8.8.8"])
def test_what_nobody_has_on_the_internet_is_not_public(host: str) -> None:
    assert not dialling.literal_within(host, Reach.PUBLIC)


@pytest.mark.parametrize("host", ["134744072", "2606:4700::1111", "::ffff:8.8.8.8", "8.8.8.8"])
def test_public_addresses_are_within_reach_however_they_are_spelled(host: str) -> None:
    assert dialling.literal_within(host, Reach.PUBLIC)


@pytest.mark.parametrize("host", ["1.example.com", "0xcafe.example.com", "256.256.256.256"])
def test_names_of_digits_are_names(host: str) -> None:
    assert dialling.literal_within(host, Reach.PUBLIC)


def test_public_host_leads_to_no_private_one(near: socket.socket) -> None:
    dial = Dial(reach=Reach.NOT_METADATA, known=Known(), proxy=None)
    port = near.getsockname()[1]

    with pytest.raises(GitError, match=r"'127\.0\.0\.1' is a private address"):
        dial.lead("git.example.com", "127.0.0.1")
    with pytest.raises(OutOfReachError, match="'localhost' is a private address"):
        dial("localhost", port, timeout=5)

    assert untouched(near)


def test_private_host_leads_to_others(near: socket.socket) -> None:
    dial = Dial(reach=Reach.NOT_METADATA, known=Known(), proxy=None)
    port = near.getsockname()[1]
    dial("localhost", port, timeout=5).close()

    dial.lead("localhost", "127.0.0.1")

    dial("127.0.0.1", port, timeout=5).close()


def test_nobody_opens_connections_but_those_who_are_known() -> None:
    found = {
        str(file.relative_to(ROOT)): opened
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*.py"))
        if (opened := set(openers(ast.parse(file.read_text()))))
    }

    assert found == KNOWN


def test_the_documentation_tells_who_opens_connections() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    section = text.partition("\n## Outbound connections\n")[2].partition("\n## ")[0]

    assert [name for name in KNOWN if f"`{name}`" not in section] == []


@pytest.mark.parametrize(
    "source",
    [
        "import aiohttp\naiohttp.ClientSession()",
        "from aiohttp import ClientSession as S\nS()",
        "import socket as s\nclass A(s.socket): ...",
        "async def f(loop): await loop.create_connection(None, 'a', 1)",
        "from urllib import request\nrequest.urlopen('http://a')",
    ],
)
def test_opener_is_found_however_it_is_written(source: str) -> None:
    assert list(openers(ast.parse(source)))


def openers(tree: ast.Module) -> Iterator[str]:
    """Yield what a module calls, or inherits from, that opens connections."""
    names = dict(_imported(tree))
    for node in ast.walk(tree):
        used = node.bases if isinstance(node, ast.ClassDef) else []
        used = [node.func] if isinstance(node, ast.Call) else used
        for one in used:
            first, dot, rest = _dotted(one).partition(".")
            name = f"{names.get(first, first)}{dot}{rest}"
            if name in OPENERS:
                yield name
            elif isinstance(one, ast.Attribute) and one.attr in METHODS:
                yield one.attr


def _dotted(node: ast.expr) -> str:
    """Return ``a.b.c`` where it is that; ``ast.unparse`` writes out whole expressions for it."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr) if owner := _dotted(value):
            return f"{owner}.{attr}"
    return ""


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield what names stand for, by the imports of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((one.asname, one.name) for one in node.names if one.asname)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"
