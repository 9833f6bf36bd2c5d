"""Refusals that the tests of whole requests do not reach."""

import asyncio
import datetime as dt
import itertools

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from multidict import MultiDict

from apiserver.auth import requestheader, standing
from apiserver.auth.authorities import Authorities, UntrustedError
from apiserver.auth.configuration import Trust
from apiserver.auth.reviews import SECONDS, Reviews
from controlplane.certificates import Authority
from tests.fakes import virtualtime
from toolkit.kube.errors import UnreachableError
from toolkit.objects import Json


def usage(*, signs: bool) -> x509.KeyUsage:
    rights = dict.fromkeys(
        (
            *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
            *("crl_sign", "encipher_only", "decipher_only"),
        ),
        False,
    )
    return x509.KeyUsage(digital_signature=True, key_cert_sign=signs, **rights)


@pytest.mark.parametrize(("ca", "signs"), list(itertools.product((True, False), repeat=2)))
def test_only_an_authority_that_may_sign_certificates_vouches(*, ca: bool, signs: bool) -> None:
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in ("ca", "alice")]

    def signed(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        until = now + dt.timedelta(days=1)
        number = x509.random_serial_number()
        return x509.CertificateBuilder(names[0], subject, public, number, now, until)

    authority = (
        signed(names[0], key.public_key())
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(usage(signs=signs), critical=True)
        .sign(key, hashes.SHA256())
    )
    client = ec.generate_private_key(ec.SECP256R1()).public_key()
    alice = signed(names[1], client).sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
    known = Authorities(authority.public_bytes(Encoding.PEM))

    if ca and signs:
        assert known.verify(alice).subject == names[1]
    else:
        with pytest.raises(UntrustedError):
            known.verify(alice)


@pytest.mark.parametrize("header", ["X-Remote-Group", "X-Remote-Extra-scopes"])
def test_front_proxy_may_not_name_more_groups_than_anybody_has(header: str) -> None:
    authority = Authority.create("proxies")
    proxy = x509.load_pem_x509_certificate(authority.client("proxy").certificate)
    trust = Trust(
        clients=Authorities(b""),
        proxies=Authorities(authority.pair.certificate),
        allowed_names=("proxy",),
        username_headers=("X-Remote-User",),
        group_headers=("X-Remote-Group",),
        extra_prefixes=("X-Remote-Extra-",),
    )
    headers = MultiDict({"X-Remote-User": "alice"})
    shown = proxy.public_bytes(Encoding.DER)
    assert requestheader.user(trust, shown, headers)
    headers.extend((header, f"g{number}") for number in range(1025))

    with pytest.raises(UntrustedError, match="too many groups"):
        requestheader.user(trust, shown, headers)


def test_review_without_an_answer_ends() -> None:
    class Silent:
        async def request(self, _method: str, _path: str, *, body: Json) -> Json:
            await asyncio.Event().wait()
            return body

    async def ask() -> float:
        began = asyncio.get_running_loop().time()
        with pytest.raises(UnreachableError, match="TokenReview: no response within"):
            await Reviews(Silent()).request("POST", "/", body={"kind": "TokenReview"})
        return asyncio.get_running_loop().time() - began

    assert virtualtime.run(ask) == pytest.approx(SECONDS)


async def test_failure_of_a_watch_is_not_a_withdrawn_right() -> None:
    async def authorize() -> None:
        """Refuse nobody."""

    with pytest.raises(TimeoutError):
        async with standing.held(authorize):
            raise TimeoutError
