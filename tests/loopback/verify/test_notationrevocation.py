"""Revocation servers are asked over HTTP, within bounds, and never where we must not go."""

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_der_x509_crl, ocsp

from tests.fakes.revocation import Authority, Certified, RevocationServer
from toolkit.remote.http.http import Http
from toolkit.verify.notation.revocation import Answer, Need, Responders


@pytest.fixture
async def server() -> AsyncIterator[RevocationServer]:
    async with RevocationServer() as server:
        server.authority = Authority(server=server.base)
        yield server


def _question(server: RevocationServer, *, get: bool = False) -> Need:
    assert server.authority is not None
    request = _request(server.authority.certify(responder=True))
    if not get:
        body = b64encode(request).decode()
        return Need("ocsp", "POST", f"{server.base}/ocsp", body)
    path = b64encode(request).decode().replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    return Need("ocsp", "GET", f"{server.base}/ocsp/{path}")


def _request(certified: Certified) -> bytes:
    certificate, issuer = certified.chain
    digest = SHA1()  # noqa: S303  # what clients ask with
    builder = ocsp.OCSPRequestBuilder().add_certificate(certificate, issuer, digest)
    return builder.build().public_bytes(Encoding.DER)


def _later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


@pytest.mark.parametrize("get", [False, True])
async def test_a_responders_answer_comes_through(
    server: RevocationServer, http: Http, *, get: bool
) -> None:
    [answer] = await Responders(http, allow_private=True).ask([_question(server, get=get)])

    status = ocsp.load_der_ocsp_response(b64decode(answer.content)).certificate_status
    assert (answer.status, status) == (200, ocsp.OCSPCertStatus.GOOD)


async def test_a_list_comes_through(server: RevocationServer, http: Http) -> None:
    need = Need("crl", "GET", f"{server.base}/list.crl")

    [answer] = await Responders(http, allow_private=True).ask([need])

    assert load_der_x509_crl(b64decode(answer.content)).next_update_utc


async def test_private_addresses_are_asked_only_if_the_operator_allows(
    server: RevocationServer, http: Http
) -> None:
    need = _question(server)

    [answer] = await Responders(http).ask([need])

    assert answer.status == 0
    assert "private address" in answer.error
    assert server.authority is not None
    assert not server.authority.asked


async def test_the_metadata_service_is_never_asked(http: Http) -> None:
    need = Need("crl", "GET", "http://169.254.169.254/latest/meta-data")

    [answer] = await Responders(http, allow_private=True).ask([need])

    assert "a metadata service" in answer.error


async def test_a_redirect_to_the_metadata_service_is_not_followed(
    server: RevocationServer, http: Http
) -> None:
    server.redirect = "http://169.254.169.254"
    need = Need("crl", "GET", f"{server.base}/list.crl")

    [answer] = await Responders(http, allow_private=True).ask([need])

    assert "a metadata service" in answer.error


@pytest.mark.parametrize("kind", ["ocsp", "crl"])
async def test_an_endless_answer_is_cut_off(
    server: RevocationServer, http: Http, kind: str
) -> None:
    server.endless = True

    [answer] = await Responders(http, allow_private=True).ask([Need(kind, "GET", server.base)])

    assert "more than" in answer.error


@pytest.mark.parametrize("url", ["ftp://example.com/", "http://", "http://u:p@example.com/", "x"])
async def test_a_url_that_is_none_is_an_answer(http: Http, url: str) -> None:
    [answer] = await Responders(http).ask([Need("crl", "GET", url)])

    assert answer.error


async def test_a_server_that_is_down_is_an_answer(server: RevocationServer, http: Http) -> None:
    assert server.authority is not None
    server.authority.ocsp_down = True
    need = _question(server)

    [answer] = await Responders(http, allow_private=True, seconds=1).ask([need])

    assert "503" in answer.error


async def test_useful_answers_are_kept_but_not_for_longer_than_an_hour(
    server: RevocationServer, http: Http
) -> None:
    assert server.authority is not None
    now = datetime.now(UTC).timestamp()
    responders = Responders(http, allow_private=True, clock=lambda: now)
    need = _question(server)
    [answer] = await responders.ask([need])

    responders.keep({need: answer}, until=_later())
    again = await responders.ask([need])
    now += 1800
    responders.keep({need: answer}, until=_later() + timedelta(days=7))
    now += 1801
    await responders.ask([need])

    assert again == [answer]
    assert server.authority.asked["ocsp"] == 2


async def test_answers_that_were_of_no_use_are_not_kept(
    server: RevocationServer, http: Http
) -> None:
    assert server.authority is not None
    responders = Responders(http, allow_private=True)
    need = _question(server)

    await responders.ask([need])
    await responders.ask([need])
    responders.keep({need: Answer("POST", need.url, error="down")}, until=_later())
    await responders.ask([need])

    assert server.authority.asked["ocsp"] == 3
