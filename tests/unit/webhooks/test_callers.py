"""Addresses of callers, however a socket tells them."""

import asyncio
import contextlib
import ssl

import pytest
import trustme
from multidict import CIMultiDict

from certs.serving import Serving
from toolkit.kube.options import Options
from webhooks.callers import Callers

OWN = CIMultiDict({"Accept": "application/json", "User-Agent": "kube-apiserver-admission"})


class Connection(asyncio.BaseTransport):
    """A connection from an address."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1) if address else None})


def callers(*networks: str) -> Callers:
    return Callers.trusting(Serving(), Options(webhook_client_networks=networks))


@pytest.mark.parametrize(
    ("address", "known"),
    [
        ("10.0.0.7", True),
        ("::ffff:10.0.0.7", True),
        ("10.0.1.7", False),
        ("::ffff:10.0.1.7", False),
        ("fd00::1", True),
        ("fd00::1%eth0", True),
        ("fd01::1", False),
        ("", False),
    ],
)
def test_callers_are_known_by_their_network(address: str, *, known: bool) -> None:
    assert callers("10.0.0.0/24", "fd00::/64").know(Connection(address), OWN) is known


def test_who_has_gone_is_nobody() -> None:
    assert not callers("0.0.0.0/0").know(None, OWN)
    assert not Callers(certified=True).know(None, OWN)


AUTHORITY = trustme.CA()


def session(*, name: str = "", verified: bool = True) -> asyncio.BaseTransport:
    """Return the server's end of a TLS session, with a client that shows a certificate or none."""
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert("gate").configure_cert(ours)
    ours.verify_mode = ssl.CERT_OPTIONAL if verified else ssl.CERT_NONE
    AUTHORITY.configure_trust(ours)
    theirs = ssl.create_default_context()
    AUTHORITY.configure_trust(theirs)
    if name:
        AUTHORITY.issue_cert(common_name=name).configure_cert(theirs)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = theirs.wrap_bio(down, up, server_hostname="gate")
    server = ours.wrap_bio(up, down, server_side=True)
    for end in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    return asyncio.BaseTransport({"ssl_object": server})


@pytest.mark.parametrize(
    ("names", "connection", "known"),
    [
        ((), session(), False),
        ((), session(name="api", verified=False), False),
        ((), session(name="api"), True),
        (("api",), session(name="api"), True),
        (("api",), session(name="other"), False),
        (("api",), session(), False),
        ((), asyncio.BaseTransport(), False),
    ],
    ids=["bare", "unverified", "verified", "named", "another", "nobody", "plain"],
)
def test_callers_are_known_by_a_certificate_that_was_verified(
    names: tuple[str, ...], connection: asyncio.BaseTransport, *, known: bool
) -> None:
    demanded = Callers(certified=True, names=frozenset(names))

    assert demanded.know(connection, OWN) is known


def test_nothing_demanded_is_nothing_proven() -> None:
    assert not callers().proven
    assert callers().know(Connection("192.0.2.1"), {"X-Forwarded-For": "192.0.2.1"})


def test_what_is_no_network_is_named() -> None:
    with pytest.raises(ValueError, match=r"--webhook-client-networks: .*10\.0\.0\.7/24"):
        callers("10.0.0.7/24")


def test_certificates_are_demanded_besides() -> None:
    demanded = Callers(networks=callers("10.0.0.0/24").networks, certified=True)

    assert not demanded.know(Connection("10.0.0.7"), OWN)


@pytest.mark.parametrize("certified", [True, False])
def test_conversions_are_asked_about_by_network_alone(*, certified: bool) -> None:
    demanded = Callers(networks=callers("10.0.0.0/24").networks, certified=certified)

    assert demanded.reach(Connection("10.0.0.7"), OWN)
    assert not demanded.reach(Connection("10.0.1.7"), OWN)


@pytest.mark.parametrize(
    "added", ["X-Forwarded-Uri", "X-Forwarded-Host", "x-forwarded-for", "Forwarded", "Via"]
)
def test_nobody_is_known_whose_request_somebody_carried(added: str) -> None:
    demanded = callers("10.0.0.0/24")
    headers = CIMultiDict({**OWN, added: ""})

    assert not demanded.know(Connection("10.0.0.7"), headers)
    assert not demanded.reach(Connection("10.0.0.7"), headers)
