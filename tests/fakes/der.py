"""DER by hand, as far as timestamps (RFC 3161 in RFC 5652) need it; no library writes them."""

import hashlib
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

_SEQUENCE, _SET, _INTEGER, _OCTETS, _OID, _TIME = 0x30, 0x31, 0x02, 0x04, 0x06, 0x18
_SIGNED_DATA = "1.2.840.113549.1.7.2"
_TST_INFO = "1.2.840.113549.1.9.16.1.4"
_CONTENT_TYPE = "1.2.840.113549.1.9.3"
_MESSAGE_DIGEST = "1.2.840.113549.1.9.4"
_SIGNING_CERTIFICATE_V2 = "1.2.840.113549.1.9.16.2.47"
_SHA256 = "2.16.840.1.101.3.4.2.1"
_ECDSA_SHA256 = "1.2.840.10045.4.3.2"
_POLICY = "1.3.6.1.4.1.57264.2"


def tlv(tag: int, *parts: bytes) -> bytes:
    """Return a value with its tag and length."""
    body = b"".join(parts)
    size = len(body)
    if size < 0x80:
        return bytes([tag, size]) + body
    octets = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(octets)]) + octets + body


def integer(value: int) -> bytes:
    return tlv(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1))


def oid(dotted: str) -> bytes:
    first, second, *arcs = map(int, dotted.split("."))
    body = b""
    for arc in (first * 40 + second, *arcs):
        septets = [arc & 0x7F]
        while arc := arc >> 7:
            septets.append(0x80 | arc & 0x7F)
        body += bytes(reversed(septets))
    return tlv(_OID, body)


def timestamp(
    digest: bytes, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, time: datetime
) -> bytes:
    """Return a granted TimeStampResp over a SHA-256 digest, with the signer's certificate."""
    algorithm = tlv(_SEQUENCE, oid(_SHA256))
    info = tlv(
        _SEQUENCE,
        integer(1),
        oid(_POLICY),
        tlv(_SEQUENCE, algorithm, tlv(_OCTETS, digest)),
        integer(x509.random_serial_number()),
        tlv(_TIME, time.strftime("%Y%m%d%H%M%SZ").encode()),
    )
    encoded = certificate.public_bytes(Encoding.DER)
    attributes = sorted(
        [
            _attribute(_CONTENT_TYPE, oid(_TST_INFO)),
            _attribute(_MESSAGE_DIGEST, tlv(_OCTETS, hashlib.sha256(info).digest())),
            _attribute(
                _SIGNING_CERTIFICATE_V2,
                tlv(
                    _SEQUENCE,
                    tlv(_SEQUENCE, tlv(_SEQUENCE, tlv(_OCTETS, hashlib.sha256(encoded).digest()))),
                ),
            ),
        ]
    )
    signature = key.sign(tlv(_SET, *attributes), ec.ECDSA(hashes.SHA256()))
    signer = tlv(
        _SEQUENCE,
        integer(1),
        tlv(_SEQUENCE, certificate.issuer.public_bytes(), integer(certificate.serial_number)),
        algorithm,
        tlv(0xA0, *attributes),
        tlv(_SEQUENCE, oid(_ECDSA_SHA256)),
        tlv(_OCTETS, signature),
    )
    signed = tlv(
        _SEQUENCE,
        integer(3),
        tlv(_SET, algorithm),
        tlv(_SEQUENCE, oid(_TST_INFO), tlv(0xA0, tlv(_OCTETS, info))),
        tlv(0xA0, encoded),
        tlv(_SET, signer),
    )
    status = tlv(_SEQUENCE, integer(0))
    return tlv(_SEQUENCE, status, tlv(_SEQUENCE, oid(_SIGNED_DATA), tlv(0xA0, signed)))


def uncovered(stamp: bytes) -> set[int]:
    """Return the positions that decide nothing: no signature covers them (RFC 5652, section 5.3).

    Those are the two version numbers and the name of the signature's algorithm. A verifier takes
    the algorithm from the certificate's key and from the digest's name.
    """
    algorithm = tlv(_SEQUENCE, oid(_ECDSA_SHA256))
    parts = (
        (stamp.index(integer(3), stamp.index(oid(_SIGNED_DATA))), len(integer(3))),
        (stamp.rindex(integer(1) + b"\x30"), len(integer(1))),
        (stamp.rindex(algorithm), len(algorithm)),
    )
    return {position for start, size in parts for position in range(start, start + size)}


def _attribute(kind: str, value: bytes) -> bytes:
    return tlv(_SEQUENCE, oid(kind), tlv(_SET, value))
