"""Signatures in cosign's formats, made part by part so that each part can be made wrong.

For what the real cosign does not make: Ed25519, old bundles, and all that is hostile.
"""

import hashlib
import json
from base64 import b64decode
from datetime import datetime
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from tests.fakes.sigstore import Authority, Json, Log, SigningKey, Sigstore, b64, canonical, sign

BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
SIGN: Final = "https://sigstore.dev/cosign/sign/v1"
SIMPLE_SIGNING: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
ISSUER: Final = "https://token.actions.example.com"
SUBJECT: Final = "https://github.com/acme/app/.github/workflows/release.yaml@refs/tags/v1.0.0"

_IN_TOTO: Final = "application/vnd.in-toto+json"


def statement(digest: str, predicate: str = SIGN) -> bytes:
    """Return an in-toto statement about an artifact."""
    algorithm, _, value = digest.partition(":")
    return canonical(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"digest": {algorithm: value}}],
            "predicateType": predicate,
            "predicate": {},
        }
    )


def envelope(key: SigningKey, payload: bytes, payload_type: str = _IN_TOTO) -> Json:
    """Return a DSSE envelope around a payload."""
    kind = payload_type.encode()
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    signature = {"sig": b64(sign(key, signed))}
    return {"payload": b64(payload), "payloadType": payload_type, "signatures": [signature]}


def keyed(key: SigningKey, digest: str, predicate: str = SIGN) -> Json:
    """Return a bundle by a key that only its hash hints at."""
    return {
        "mediaType": BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": "key"}},
        "dsseEnvelope": envelope(key, statement(digest, predicate)),
    }


def keyless(
    sigstore: Sigstore,
    digest: str,
    *,
    predicate: str = SIGN,
    time: datetime | None = None,
    logged: datetime | None = None,
    log: Log | None = None,
    stamped_by: Sigstore | None = None,
    key: ec.EllipticCurvePrivateKey | None = None,
    **certificate: Any,
) -> Json:
    """Return a bundle with a certificate made at ``time`` and a log entry made when ``logged``."""
    key, log = key or ec.generate_private_key(ec.SECP256R1()), log or sigstore.rekor
    made = sigstore.certificate(
        key.public_key(),
        **{"subject": SUBJECT, "issuer": ISSUER, "time": time} | certificate,
    )
    dsse = envelope(key, statement(digest, predicate))
    material: Json = {
        "certificate": {"rawBytes": b64(made.public_bytes(Encoding.DER))},
        "tlogEntries": [log.add(_body(dsse, made, log.version), time=logged or time)],
    }
    if stamped_by:
        signature = hashlib.sha256(_signature(dsse)).digest()
        stamp = b64(stamped_by.stamp(signature, time=logged or time))
        material["timestampVerificationData"] = {"rfc3161Timestamps": [{"signedTimestamp": stamp}]}
    return {"mediaType": BUNDLE, "verificationMaterial": material, "dsseEnvelope": dsse}


def plain(sigstore: Sigstore, manifest: bytes, **certificate: Any) -> Json:
    """Return a bundle that signs the manifest itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    made = sigstore.certificate(
        key.public_key(), **{"subject": SUBJECT, "issuer": ISSUER} | certificate
    )
    signature, digest = sign(key, manifest), hashlib.sha256(manifest)
    entry = sigstore.rekor.add(record(digest.hexdigest(), signature, _pem(made)))
    return {
        "mediaType": BUNDLE,
        "verificationMaterial": {
            "certificate": {"rawBytes": b64(made.public_bytes(Encoding.DER))},
            "tlogEntries": [entry],
        },
        "messageSignature": {
            "messageDigest": {"algorithm": "SHA2_256", "digest": b64(digest.digest())},
            "signature": b64(signature),
        },
    }


def simple(digest: str, kind: str = "cosign container image signature") -> bytes:
    """Return a payload of the old form."""
    image = {"docker-manifest-digest": digest}
    identity = {"docker-reference": "registry.test/acme/app"}
    critical = {"identity": identity, "image": image, "type": kind}
    return canonical({"critical": critical, "optional": None})


def simple_layer(
    sigstore: Sigstore,
    payload: bytes,
    *,
    public_key: bytes | None = None,
    key: ec.EllipticCurvePrivateKey | None = None,
    authority: Authority | None = None,
) -> dict[str, str]:
    """Return the annotations of a keyless signature; ``public_key`` stands for the certificate."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    certificate = sigstore.certificate(
        key.public_key(), subject=SUBJECT, issuer=ISSUER, authority=authority
    )
    signature, shown = sign(key, payload), public_key or _pem(certificate)
    body = record(hashlib.sha256(payload).hexdigest(), signature, shown)
    entry = sigstore.rekor.add(body)
    return {
        "dev.cosignproject.cosign/signature": b64(signature),
        "dev.sigstore.cosign/certificate": shown.decode(),
        "dev.sigstore.cosign/bundle": json.dumps(
            {
                "SignedEntryTimestamp": entry["inclusionPromise"]["signedEntryTimestamp"],
                "Payload": {
                    "body": entry["canonicalizedBody"],
                    "integratedTime": int(entry["integratedTime"]),
                    "logIndex": int(entry["logIndex"]),
                    "logID": sigstore.rekor.key_id.hex(),
                },
            }
        ),
    }


def record(digest: str, signature: bytes, verifier: bytes) -> bytes:
    """Return the body of Rekor's ``hashedrekord`` 0.0.1."""
    spec = {
        "data": {"hash": {"algorithm": "sha256", "value": digest}},
        "signature": {"content": b64(signature), "publicKey": {"content": b64(verifier)}},
    }
    return canonical({"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": spec})


def _body(dsse: Json, certificate: x509.Certificate, version: int) -> bytes:
    payload = b64decode(dsse["payload"])
    if version == 1:
        spec: Json = {
            "envelopeHash": {"algorithm": "sha256", "value": hashlib.sha256().hexdigest()},
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
            "signatures": [
                {"signature": dsse["signatures"][0]["sig"], "verifier": b64(_pem(certificate))}
            ],
        }
        return canonical({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})
    kind = dsse["payloadType"].encode()
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    raw = b64(certificate.public_bytes(Encoding.DER))
    verifier = {"x509Certificate": {"rawBytes": raw}, "keyDetails": "PKIX_ECDSA_P256_SHA_256"}
    spec = {
        "data": {"algorithm": "SHA2_256", "digest": b64(hashlib.sha256(signed).digest())},
        "signature": {"content": dsse["signatures"][0]["sig"], "verifier": verifier},
    }
    return canonical(
        {"apiVersion": "0.0.2", "kind": "hashedrekord", "spec": {"hashedRekordV002": spec}}
    )


def _signature(dsse: Json) -> bytes:
    return b64decode(dsse["signatures"][0]["sig"])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)
