"""A Sigstore instance in memory: authority, certificate log, Rekor of both versions, timestamps.

What it makes is what the real services make, so that cosign and sigstore-python accept it with
``trusted_root()``. Each part can also be asked for what an honest one would never do.
"""

import base64
import hashlib
import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.fakes import der

Json = dict[str, Any]
SigningKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS = timedelta(days=50 * 365)
_OID = "1.3.6.1.4.1.57264.1."
_SCT_LIST = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@dataclass
class Authority:
    """A root, and a certificate below it that is used."""

    root: x509.Certificate
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def chain(self) -> list[x509.Certificate]:
        return [self.certificate, self.root]


@dataclass
class Log:
    """An append-only Merkle tree (RFC 6962) that signs its state; ``origin`` is its name."""

    origin: str
    key: SigningKey
    version: int
    # Some clients cannot read an index that protobuf leaves away because it is zero.
    leaves: list[bytes] = field(default_factory=lambda: [hashlib.sha256(b"\0first").digest()])

    @property
    def key_id(self) -> bytes:
        if self.version == 1:
            return hashlib.sha256(spki(self.key)).digest()
        raw = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return hashlib.sha256(self.origin.encode() + b"\n\x01" + raw).digest()

    def add(self, body: bytes, *, time: datetime | None = None) -> Json:
        """Take an entry in and return it as bundles hold it."""
        self.leaves.append(hashlib.sha256(b"\0" + body).digest())
        # A log that is alive goes on; a proof of a tree with one leaf would prove little.
        for filler in range(3):
            self.leaves.append(hashlib.sha256(b"\0" + filler.to_bytes()).digest())
        index, size = len(self.leaves) - 4, len(self.leaves)
        root = _root(self.leaves)
        spec = json.loads(body)
        entry: Json = {
            "logIndex": str(index),
            "logId": {"keyId": b64(self.key_id)},
            "kindVersion": {"kind": spec["kind"], "version": spec["apiVersion"]},
            "inclusionProof": {
                "logIndex": str(index),
                "rootHash": b64(root),
                "treeSize": str(size),
                "hashes": [b64(node) for node in _path(index, self.leaves)],
                "checkpoint": {"envelope": self.checkpoint(size, root)},
            },
            "canonicalizedBody": b64(body),
        }
        if self.version == 1:
            seconds = int((time or now()).timestamp())
            entry["integratedTime"] = str(seconds)
            entry["inclusionPromise"] = {
                "signedEntryTimestamp": b64(self.promise(body, seconds, index))
            }
        return entry

    def promise(self, body: bytes, seconds: int, index: int) -> bytes:
        """Sign that an entry was taken in (Rekor v1's signed entry timestamp)."""
        signed = {
            "body": b64(body),
            "integratedTime": seconds,
            "logID": self.key_id.hex(),
            "logIndex": index,
        }
        return sign(self.key, canonical(signed))

    def checkpoint(self, size: int, root: bytes) -> str:
        """Sign the log's state (C2SP tlog-checkpoint)."""
        origin = f"{self.origin} - 1193050959916656506" if self.version == 1 else self.origin
        text = f"{origin}\n{size}\n{b64(root)}\n"
        signature = b64(self.key_id[:4] + sign(self.key, text.encode()))
        return f"{text}\n— {self.origin} {signature}\n"


class Sigstore:
    """All services of one instance, each with a key of its own."""

    def __init__(self) -> None:
        self.authority = authority("fulcio", ExtendedKeyUsageOID.CODE_SIGNING, ca=True)
        self.timestamps = authority("timestamps", ExtendedKeyUsageOID.TIME_STAMPING, ca=False)
        self.certificate_log = ec.generate_private_key(ec.SECP256R1())
        self.rekor = Log("rekor.sigstore.test", ec.generate_private_key(ec.SECP256R1()), 1)
        self.rekor2 = Log("log.sigstore.test", ed25519.Ed25519PrivateKey.generate(), 2)

    def certificate(
        self,
        public_key: ec.EllipticCurvePublicKey,
        *,
        subject: str,
        issuer: str,
        time: datetime | None = None,
        minutes: int = 10,
        purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.CODE_SIGNING,
        sct: bool = True,
        certificate_log: ec.EllipticCurvePrivateKey | None = None,
        authority: Authority | None = None,
        usage: x509.KeyUsage | None = None,
        more: Iterable[x509.ExtensionType] = (),
        timestamps: bytes = b"",
    ) -> x509.Certificate:
        """Issue a certificate as Fulcio does.

        ``more`` are critical extensions; ``timestamps`` are the certificate log's for another one.
        """
        time, authority = time or now(), authority or self.authority
        name = (
            x509.RFC822Name(subject)
            if "@" in subject and "://" not in subject
            else x509.UniformResourceIdentifier(subject)
        )
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(authority.certificate.subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(time)
            .not_valid_after(time + timedelta(minutes=minutes))
            .add_extension(usage or key_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
                critical=False,
            )
            .add_extension(x509.SubjectAlternativeName([name]), critical=True)
            .add_extension(_unknown("1", issuer.encode()), critical=False)
            .add_extension(_unknown("8", der.tlv(0x0C, issuer.encode())), critical=False)
        )
        for extension in more:
            builder = builder.add_extension(extension, critical=True)
        if sct:
            bare = builder.sign(authority.key, hashes.SHA256())
            log = certificate_log or self.certificate_log
            timestamps = timestamps or _timestamp_list(
                log, bare.tbs_certificate_bytes, authority, time
            )
            builder = builder.add_extension(
                x509.UnrecognizedExtension(_SCT_LIST, der.tlv(0x04, timestamps)), critical=False
            )
        return builder.sign(authority.key, hashes.SHA256())

    def stamp(self, digest: bytes, *, time: datetime | None = None) -> bytes:
        """Return a timestamp response for a SHA-256 digest (RFC 3161)."""
        return der.timestamp(
            digest, self.timestamps.certificate, self.timestamps.key, time or now()
        )

    def trusted_root(self) -> bytes:
        """Return ``trusted_root.json``."""
        since = {"start": "2020-01-01T00:00:00Z"}
        return json.dumps(
            {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [
                    _log_root(f"https://{log.origin}", log.key, log.key_id)
                    for log in (self.rekor, self.rekor2)
                ],
                "certificateAuthorities": [
                    _authority_root("https://fulcio.sigstore.test", self.authority, since)
                ],
                "ctlogs": [
                    _log_root(
                        "https://ctfe.sigstore.test",
                        self.certificate_log,
                        hashlib.sha256(spki(self.certificate_log)).digest(),
                    )
                ],
                "timestampAuthorities": [
                    _authority_root("https://tsa.sigstore.test", self.timestamps, since)
                ],
            },
            indent=1,
        ).encode()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def canonical(value: Json) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def spki(key: SigningKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def sign(key: SigningKey, data: bytes) -> bytes:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(data)
    return key.sign(data, ec.ECDSA(hashes.SHA256()))


def authority(
    name: str,
    purpose: x509.ObjectIdentifier,
    *,
    ca: bool,
    root_path: int | None = 1,
    more: Iterable[x509.ExtensionType] = (),
    end: datetime | None = None,
) -> Authority:
    """Make a root and a certificate below it, with critical extensions, that ends some day."""
    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = self_made(f"{name}-root", root_key, f"{name}-root", root_key)
    root = root.add_extension(
        x509.BasicConstraints(ca=True, path_length=root_path), critical=True
    ).add_extension(key_usage(key_cert_sign=True), critical=True)
    below = self_made(name, key, f"{name}-root", root_key, end=end)
    below = (
        below.add_extension(
            x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True
        )
        .add_extension(key_usage(key_cert_sign=ca, digital_signature=not ca), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=not ca)
    )
    for extension in more:
        below = below.add_extension(extension, critical=True)
    return Authority(
        root=root.sign(root_key, hashes.SHA256()),
        certificate=below.sign(root_key, hashes.SHA256()),
        key=key,
    )


def self_made(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    end: datetime | None = None,
) -> x509.CertificateBuilder:
    """Begin an authority's certificate."""
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - timedelta(days=1000))
        .not_valid_after(end or now() + _YEARS)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )


def _name(name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "sigstore.test"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def key_usage(*, digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=key_cert_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _unknown(arc: str, value: bytes) -> x509.UnrecognizedExtension:
    return x509.UnrecognizedExtension(x509.ObjectIdentifier(_OID + arc), value)


def _timestamp_list(
    log: ec.EllipticCurvePrivateKey, body: bytes, authority: Authority, time: datetime
) -> bytes:
    """Return the list of one signed certificate timestamp (RFC 6962, section 3.3)."""
    milliseconds = (time - EPOCH) // timedelta(milliseconds=1)
    signed = (
        struct.pack(">BBQH", 0, 0, milliseconds, 1)
        + hashlib.sha256(spki(authority.key)).digest()
        + len(body).to_bytes(3)
        + body
        + b"\0\0"
    )
    signature = sign(log, signed)
    log_id = hashlib.sha256(spki(log)).digest()
    timestamp = (
        b"\0"
        + log_id
        + struct.pack(">QH", milliseconds, 0)
        + b"\x04\x03"
        + struct.pack(">H", len(signature))
        + signature
    )
    one = struct.pack(">H", len(timestamp)) + timestamp
    return struct.pack(">H", len(one)) + one


def _log_root(url: str, key: SigningKey, key_id: bytes) -> Json:
    details = "PKIX_ED25519" if isinstance(key, ed25519.Ed25519PrivateKey) else _P256
    return {
        "baseUrl": url,
        "hashAlgorithm": "SHA2_256",
        "publicKey": {
            "rawBytes": b64(spki(key)),
            "keyDetails": details,
            "validFor": {"start": "2020-01-01T00:00:00Z"},
        },
        "logId": {"keyId": b64(key_id)},
    }


_P256 = "PKIX_ECDSA_P256_SHA_256"


def _authority_root(url: str, authority: Authority, since: Json) -> Json:
    return {
        "subject": {"organization": "sigstore.test", "commonName": url},
        "uri": url,
        "certChain": {
            "certificates": [
                {"rawBytes": b64(certificate.public_bytes(Encoding.DER))}
                for certificate in authority.chain
            ]
        },
        "validFor": since,
    }


def _root(leaves: list[bytes]) -> bytes:
    if len(leaves) == 1:
        return leaves[0]
    split = _split(len(leaves))
    return _node(_root(leaves[:split]), _root(leaves[split:]))


def _path(index: int, leaves: list[bytes]) -> list[bytes]:
    """Return the audit path (RFC 6962, section 2.1.1)."""
    if len(leaves) == 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*_path(index, leaves[:split]), _root(leaves[split:])]
    return [*_path(index - split, leaves[split:]), _root(leaves[:split])]


def _split(size: int) -> int:
    return 1 << ((size - 1).bit_length() - 1)


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
