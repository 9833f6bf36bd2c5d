"""Which addresses another server may lead us to, and what a connection to one takes."""

import asyncio
import socket
from asyncio import sslproto

import pytest
from aiohttp.abc import ResolveResult

from toolkit.remote.http import reach as httpreach
from toolkit.remote.http.reach import Known, OutOfReachError, Reach, Resolver

PUBLIC = ["8.8.8.8", "[2001:4860:4860::8888]", "2001:4860:4860::8888", "::ffff:8.8.8.8"]
METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "[fe80::1]",
    "fe80::1%eth0",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "[fd00:ec2::254]",
    "fd20:ce::254",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
]
PRIVATE = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "0.0.0.0",  # noqa: S104  # a destination here
    "224.0.0.1",
    "[::1]",
    "fd00::1",
    "::ffff:127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
]


@pytest.mark.parametrize("host", [*PUBLIC, "registry.example.com"])
def test_public_address_is_within_every_reach(host: str) -> None:
    assert all(httpreach.literal_within(host, reach) for reach in Reach)


@pytest.mark.parametrize("host", PRIVATE)
def test_private_address_is_not_public(host: str) -> None:
    assert httpreach.literal_within(host, Reach.NOT_METADATA)
    assert not httpreach.literal_within(host, Reach.PUBLIC)


@pytest.mark.parametrize("host", METADATA)
def test_metadata_service_is_out_of_every_bounded_reach(host: str) -> None:
    assert not httpreach.literal_within(host, Reach.NOT_METADATA)
    assert not httpreach.literal_within(host, Reach.PUBLIC)


def test_host_is_as_public_as_it_ever_was() -> None:
    known = Known()
    known.note("inside", public=False)
    known.note("rebound", public=True)
    known.note("rebound", public=False)

    assert not known.is_public("inside")
    assert known.is_public("rebound")
    assert known.is_public("never-resolved-here")
    assert not known.is_public("10.0.0.1")


def test_what_is_known_is_bounded() -> None:
    known = Known()
    known.note("first", public=False)
    for number in range(5000):
        known.note(f"host-{number}", public=False)

    assert known.is_public("first")
    assert not known.is_public("host-4999")


async def resolved(reach: Reach) -> list[ResolveResult]:
    resolver = Resolver(reach, Known())
    try:
        return await resolver.resolve("localhost", 80, socket.AF_INET)
    finally:
        await resolver.close()


async def test_name_is_checked_where_it_is_resolved() -> None:
    found = await resolved(Reach.NOT_METADATA)
    with pytest.raises(OutOfReachError, match="private address"):
        await resolved(Reach.PUBLIC)

    assert found[0]["host"] == "127.0.0.1"


async def test_name_in_an_odd_notation_is_checked_too() -> None:
    resolver = Resolver(Reach.PUBLIC, Known())

    for host in ("127.1", "0x7f.1", "2130706433", "localhost."):
        with pytest.raises(OSError):  # noqa: PT011  # out of reach, or no such name
            await asyncio.wait_for(resolver.resolve(host, 80, socket.AF_INET), 10)

    await resolver.close()


async def test_tls_connections_have_small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", 256 << 10)

    async with httpreach.connector(Reach.ANYWHERE):
        assert sslproto.SSLProtocol.max_size <= 64 << 10
