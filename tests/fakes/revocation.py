"""An authority for signing code, and the servers that tell which of its certificates are revoked.

``Authority`` makes a root and certificates below it. ``authority.answer(method, url)`` is what its
OCSP responder and its list say now; ``RevocationServer`` says the same over HTTP, and
``Revocations`` to who asks through ``notation.verify``, without a network.
"""

import base64
import functools
import urllib.parse
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Self

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import ocsp
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, NameOID

from tests.fakes.serving import serving
from toolkit.verify.notation.revocation import Answer, Need

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

SERVER = "http://revocation.example.com"
_CURVES: Mapping[str, ec.EllipticCurve] = {
    "P-256": ec.SECP256R1(),
    "P-384": ec.SECP384R1(),
    "P-521": ec.SECP521R1(),
}


def new_key(kind: str = "P-256") -> Key:
    """Make a key: P-256, P-384, P-521, or the bits of an RSA key."""
    if kind in _CURVES:
        return ec.generate_private_key(_CURVES[kind])
    return rsa.generate_private_key(65537, int(kind))


@functools.cache
def _signers_key(bits: str) -> Key:
    """Make an RSA key of this size once: it takes half a second of a processor."""
    return new_key(bits)


class Certified:
    """A key and the certificates that vouch for it, the root last."""

    def __init__(self, key: Key, chain: Sequence[x509.Certificate]) -> None:
        self.key = key
        self.chain = tuple(chain)

    @property
    def serial(self) -> int:
        return self.chain[0].serial_number

    @property
    def key_pem(self) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @property
    def chain_pem(self) -> str:
        return b"".join(one.public_bytes(Encoding.PEM) for one in self.chain).decode()


class Authority:
    """A root; what ``revoked``, ``down`` and ``garbled`` say may be changed at any time."""

    def __init__(
        self,
        name: str = "Root",
        *,
        server: str = SERVER,
        key: str = "P-256",
        lasts: tuple[timedelta, timedelta] = (timedelta(days=-400), timedelta(days=400)),
    ) -> None:
        self.server = server
        self.revoked: set[int] = set()
        self.ocsp_down = self.list_down = self.garbled = False
        self.padding = 0
        """Answer with so many bytes of nothing."""
        self.next_update = timedelta(hours=1)
        self.asked: Counter[str] = Counter()
        self._key = new_key(key)
        subject = _name(name)
        self.root = (
            _builder(subject, subject, self._key, *lasts)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(self._key, _hash(self._key))
        )

    @property
    def pem(self) -> bytes:
        return self.root.public_bytes(Encoding.PEM)

    def certify(
        self,
        name: str = "Signer",
        *,
        key: str = "P-256",
        lasts: tuple[timedelta, timedelta] = (timedelta(hours=-1), timedelta(days=1)),
        use: x509.ObjectIdentifier = ExtendedKeyUsageOID.CODE_SIGNING,
        responder: bool = False,
        listed: bool = False,
        server: str = "",
        responders: Sequence[str] = (),
    ) -> Certified:
        """Make a key and its certificate, which may name OCSP responders or a list."""
        made = new_key(key) if key in _CURVES else _signers_key(key)
        builder = (
            _builder(_name(name), self.root.subject, made, *lasts)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([use]),
                critical=use == ExtendedKeyUsageOID.TIME_STAMPING,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        place = server or self.server
        if places := [*responders, *([f"{place}/ocsp"] if responder else [])]:
            method = AuthorityInformationAccessOID.OCSP
            access = x509.AuthorityInformationAccess(
                [
                    x509.AccessDescription(method, x509.UniformResourceIdentifier(one))
                    for one in places
                ]
            )
            builder = builder.add_extension(access, critical=False)
        if listed:
            where = x509.UniformResourceIdentifier(f"{place}/list.crl")
            point = x509.DistributionPoint([where], None, None, None)
            builder = builder.add_extension(x509.CRLDistributionPoints([point]), critical=False)
        return Certified(made, [builder.sign(self._key, _hash(self._key)), self.root])

    def answer(self, method: str, url: str, body: bytes = b"") -> tuple[int, bytes]:
        """Return status and content as the servers answer."""
        path = urllib.parse.urlsplit(url).path
        kind = "list" if path == "/list.crl" else "ocsp"
        self.asked[kind] += 1
        if self.list_down if kind == "list" else self.ocsp_down:
            return 503, b""
        if self.padding:
            return 200, bytes(self.padding)
        if self.garbled:
            return 200, b"<html>welcome</html>"
        if kind == "list":
            return 200, self._list()
        if method == "GET":
            body = base64.b64decode(urllib.parse.unquote(path.removeprefix("/ocsp/")))
        return 200, self._status(body)

    def _status(self, request: bytes) -> bytes:
        serial = ocsp.load_der_ocsp_request(request).serial_number
        now = datetime.now(UTC)
        revoked = serial in self.revoked
        answer = ocsp.OCSPResponseBuilder().add_response_by_hash(
            issuer_name_hash=ocsp.load_der_ocsp_request(request).issuer_name_hash,
            issuer_key_hash=ocsp.load_der_ocsp_request(request).issuer_key_hash,
            serial_number=serial,
            algorithm=hashes.SHA1(),  # noqa: S303  # what clients ask with
            cert_status=ocsp.OCSPCertStatus.REVOKED if revoked else ocsp.OCSPCertStatus.GOOD,
            this_update=now - timedelta(minutes=1),
            next_update=now + self.next_update,
            revocation_time=now - timedelta(minutes=2) if revoked else None,
            revocation_reason=None,
        )
        answer = answer.responder_id(ocsp.OCSPResponderEncoding.HASH, self.root)
        return answer.sign(self._key, _hash(self._key)).public_bytes(Encoding.DER)

    def _list(self) -> bytes:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.root.subject)
            .last_update(now - timedelta(minutes=1))
            .next_update(now + self.next_update)
            .add_extension(x509.CRLNumber(1), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        for serial in self.revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(serial)
            builder = builder.add_revoked_certificate(entry.revocation_date(now).build())
        return builder.sign(self._key, _hash(self._key)).public_bytes(Encoding.DER)


class Revocations:
    """Answers for authorities by what they say themselves, and keeps count."""

    def __init__(self, *authorities: Authority) -> None:
        self._authorities = authorities
        self.kept: dict[Need, Answer] = {}
        self.rounds = 0

    async def ask(self, needs: Sequence[Need]) -> Sequence[Answer]:
        self.rounds += 1
        return [self._answer(need) for need in needs]

    def keep(self, answers: Mapping[Need, Answer], *, until: datetime) -> None:
        assert until > datetime.now(UTC)
        self.kept |= answers

    def _answer(self, need: Need) -> Answer:
        for authority in self._authorities:
            if need.url.startswith(authority.server):
                body = base64.b64decode(need.body)
                status, content = authority.answer(need.method, need.url, body)
                text = base64.b64encode(content).decode()
                return Answer(need.method, need.url, need.body, status=status, content=text)
        return Answer(need.method, need.url, need.body, error="no such host")


class RevocationServer:
    """Serves one authority over HTTP on loopback; ``authority`` is set once it runs."""

    def __init__(self) -> None:
        self.authority: Authority | None = None
        self.base = ""
        self.redirect = ""
        self.endless = False
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        port = await self._open.enter_async_context(serving(self._serve))
        self.base = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if self.redirect:
            raise web.HTTPFound(self.redirect + request.raw_path)
        if self.endless:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(bytes(64 << 10))
        assert self.authority is not None
        status, content = self.authority.answer(
            request.method, self.base + request.raw_path, await request.read()
        )
        return web.Response(status=status, body=content)


def _name(common: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "US"),
            x509.NameAttribute(NameOID.STATE_OR_PROVINCE_NAME, "WA"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example"),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, start: timedelta, end: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + start)
        .not_valid_after(now + end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _hash(key: Key) -> hashes.SHA256 | hashes.SHA384 | hashes.SHA512:
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.key_size > 256:
        return hashes.SHA512() if key.curve.key_size > 384 else hashes.SHA384()
    return hashes.SHA256()
