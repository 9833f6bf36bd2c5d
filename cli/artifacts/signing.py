"""Sign an artifact with a key, as ``cosign sign --key`` does, and attach the signature.

The bundle (protobuf-specs, v0.3) has a DSSE envelope around an in-toto statement of the artifact's
digest. It refers to the artifact by ``subject``, so that verifiers find it among the referrers.
"""

import base64
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from cli import errors
from cli.artifacts import document
from toolkit.remote.oci import oci
from toolkit.remote.oci.oci import Descriptor, Repository
from toolkit.remote.oci.publisher import EMPTY, EMPTY_TYPE, Publisher, described
from toolkit.verify import publickey
from toolkit.verify.cosign.evidence import SIGN_PREDICATE

BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


def with_key(key: PrivateKey, digest: str) -> bytes:
    """Return a bundle in which a key signs the digest of an artifact."""
    payload = statement(digest)
    signed = b"DSSEv1 %d %b %d %b" % (len(_IN_TOTO), _IN_TOTO, len(payload), payload)
    spki = publickey.spki(publickey.accepted(key.public_key()))
    hint = base64.b64encode(hashlib.sha256(spki).digest()).decode()
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": _IN_TOTO.decode(),
        "signatures": [{"sig": base64.b64encode(_signature(key, signed)).decode()}],
    }
    material = {"publicKey": {"hint": hint}}
    return json.dumps(
        {"mediaType": BUNDLE, "verificationMaterial": material, "dsseEnvelope": envelope}
    ).encode()


def statement(digest: str) -> bytes:
    """Return the in-toto statement that this is the artifact (cosign ``sign/v1``)."""
    algorithm, _, value = digest.partition(":")
    made = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "", "digest": {algorithm: value}}],
        "predicateType": SIGN_PREDICATE,
        "predicate": {},
    }
    return json.dumps(made).encode()


def read_key(file: Path, password: Callable[[], str]) -> PrivateKey:
    """Return a private key from a PEM file; ask for the password if the key is encrypted.

    Raises:
        UsageError: the file has no key, or one of an unsupported type.
    """
    try:
        raw = file.read_bytes()
    except OSError as exc:
        raise errors.UsageError(f"--key: cannot read {file}: {exc.strerror}") from exc
    if any(mark in raw for mark in _COSIGN):
        raise errors.UsageError(
            f"--key: {file} has the form in which cosign encrypts keys, which is not read here: "
            "use a key that `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 "
            "-aes-256-cbc` makes"
        )
    encrypted = b"ENCRYPTED" in raw
    try:
        given = password().encode() if encrypted else None
        key = serialization.load_pem_private_key(raw, given)
        publickey.accepted(key.public_key())
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        wrong = "is damaged, or the password is wrong" if encrypted else "holds no private key"
        raise errors.UsageError(
            f"--key: {file} {wrong}: RSA, ECDSA (P-256, P-384, P-521) and Ed25519 in PEM are read"
        ) from exc
    assert isinstance(key, PrivateKey)  # noqa: S101  # `accepted` has refused all others
    return key


async def attach(
    publisher: Publisher, repository: Repository, subject: Descriptor, bundle: bytes
) -> None:
    """Attach a bundle to an artifact.

    Raises:
        RegistryError: the registry does not take it.
    """
    layer, config = described(bundle, BUNDLE), described(EMPTY, EMPTY_TYPE)
    await publisher.blob(repository, EMPTY, config["digest"])
    await publisher.blob(repository, bundle, layer["digest"])
    manifest = {
        "schemaVersion": 2,
        "mediaType": oci.OCI_MANIFEST,
        "artifactType": BUNDLE,
        "config": config,
        "layers": [layer],
        "subject": {
            "mediaType": subject.media_type,
            "digest": subject.digest,
            "size": subject.size,
        },
        "annotations": {
            "dev.sigstore.bundle.content": "dsse-envelope",
            "dev.sigstore.bundle.predicateType": SIGN_PREDICATE,
            document.CREATED: document.time(datetime.now(UTC)),
        },
    }
    await publisher.manifest(repository, json.dumps(manifest).encode())


_IN_TOTO: Final = b"application/vnd.in-toto+json"
_COSIGN: Final = (b"ENCRYPTED SIGSTORE PRIVATE KEY", b"ENCRYPTED COSIGN PRIVATE KEY")


def _signature(key: PrivateKey, message: bytes) -> bytes:
    match key:
        case ed25519.Ed25519PrivateKey():
            return key.sign(message)
        case rsa.RSAPrivateKey():
            return key.sign(message, padding.PKCS1v15(), hashes.SHA256())
        case ec.EllipticCurvePrivateKey():
            return key.sign(message, ec.ECDSA(_HASHES[key.curve.name]))


_HASHES: Final = {
    "secp256r1": hashes.SHA256(),
    "secp384r1": hashes.SHA384(),
    "secp521r1": hashes.SHA512(),
}
