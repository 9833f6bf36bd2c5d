"""A signer of the Notary Project's, and a registry in memory that holds what it signed.

``envelope`` makes JWS envelopes by the specification (signature-envelope-jws.md), wrong ones too.
``Shelf`` is a ``SignatureStore``: it holds artifacts and their signatures, and does as it is told.
"""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, utils
from cryptography.hazmat.primitives.serialization import Encoding

from tests.fakes.revocation import Authority, Certified
from toolkit.remote.oci.errors import RegistryError, RegistryNotFoundError
from toolkit.remote.oci.oci import Descriptor, Manifest, Repository, parse_manifest
from toolkit.verify.subject import Subject

JWS = "application/jose+json"
COSE = "application/cose"
SIGNATURE = "application/vnd.cncf.notary.signature"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
PAYLOAD = "application/vnd.cncf.notary.payload.v1+json"
REPOSITORY = Repository(registry="registry.example.com", name="team/app")


def envelope(
    by: Certified,
    target: Descriptor,
    *,
    signed: datetime | None = None,
    expiry: datetime | None = None,
    scheme: str = "notary.x509",
    critical: Mapping[str, Any] | None = None,
    payload: bytes | None = None,
) -> bytes:
    """Sign a descriptor."""
    time = _time(signed or datetime.now(UTC) - timedelta(minutes=1))
    when = "io.cncf.notary.signingTime"
    crit = ["io.cncf.notary.signingScheme"]
    if scheme != "notary.x509":
        when = "io.cncf.notary.authenticSigningTime"
        crit.append(when)
    header = {
        "alg": _algorithm(by),
        "cty": PAYLOAD,
        "io.cncf.notary.signingScheme": scheme,
        when: time,
        **(critical or {}),
    }
    crit += list(critical or {})
    if expiry is not None:
        header["io.cncf.notary.expiry"] = _time(expiry)
        crit.append("io.cncf.notary.expiry")
    header["crit"] = crit
    protected = _encode(json.dumps(header).encode())
    content = _encode(payload if payload is not None else signed_payload(target))
    signature = _sign(by, f"{protected}.{content}".encode())
    chain = [
        base64.b64encode(certificate.public_bytes(Encoding.DER)).decode()
        for certificate in by.chain
    ]
    return json.dumps(
        {
            "payload": content,
            "protected": protected,
            "header": {"x5c": chain, "io.cncf.notary.signingAgent": "test"},
            "signature": _encode(signature),
        }
    ).encode()


def signed_payload(target: Descriptor) -> bytes:
    """Return what is signed for a descriptor."""
    return json.dumps({"targetArtifact": as_json(target)}).encode()


def as_json(descriptor: Descriptor) -> dict[str, Any]:
    """Write a descriptor down."""
    return {
        "mediaType": descriptor.media_type,
        "digest": descriptor.digest,
        "size": descriptor.size,
    }


def document(
    level: str = "strict",
    *,
    override: Mapping[str, str] | None = None,
    scopes: tuple[str, ...] = (str(REPOSITORY),),
    stores: tuple[str, ...] = ("ca:example",),
    identities: tuple[str, ...] = ("*",),
    timestamp: str = "",
) -> bytes:
    """Write a trust policy document with one statement."""
    verification: dict[str, Any] = {"level": level}
    if override:
        verification["override"] = dict(override)
    if timestamp:
        verification["verifyTimestamp"] = timestamp
    statement: dict[str, Any] = {
        "name": "app",
        "registryScopes": list(scopes),
        "signatureVerification": verification,
    }
    if level != "skip":
        statement |= {"trustStores": list(stores), "trustedIdentities": list(identities)}
    return json.dumps({"version": "1.0", "trustPolicies": [statement]}).encode()


class Shelf:
    """A registry that holds one repository."""

    def __init__(self) -> None:
        self.manifests: dict[str, bytes] = {}
        self.blobs: dict[str, bytes] = {}
        self.signatures: dict[str, list[Descriptor]] = {}
        self.counts: Counter[str] = Counter()
        self.broken: set[str] = set()
        """Digests for which there is an error instead of content."""

    def artifact(self, content: bytes = b"layer") -> Descriptor:
        """Put an artifact there."""
        return self._put({"layers": [_as_blob("application/octet-stream", self._blob(content))]})

    def subject(self, artifact: Descriptor) -> Subject:
        """Return what is to be verified."""
        return Subject(store=self, repository=REPOSITORY, descriptor=artifact)

    def sign(
        self,
        artifact: Descriptor,
        content: bytes,
        *,
        media_type: str = JWS,
        refers_to: Descriptor | None = None,
        artifact_type: str = SIGNATURE,
        copies: int = 1,
    ) -> Descriptor:
        """Attach an envelope to an artifact; ``refers_to`` is what the signature says it is for."""
        layer = _as_blob(media_type, self._blob(content))
        signature = self._put(
            {
                "artifactType": artifact_type,
                "layers": [layer] * copies,
                "subject": as_json(refers_to or artifact),
            }
        )
        self.signatures.setdefault(artifact.digest, []).append(
            replace(signature, artifact_type=SIGNATURE)
        )
        return signature

    async def resolve(self, repository: Repository, reference: str) -> Descriptor:
        raise RegistryNotFoundError(f"no tag '{reference}' in {repository}")

    async def manifest(self, repository: Repository, digest: str) -> Manifest:
        self.counts["manifest"] += 1
        self._check(digest)
        if digest not in self.manifests:
            raise RegistryNotFoundError(f"no manifest {digest} in {repository}")
        return parse_manifest(self.manifests[digest])

    async def referrers(
        self, repository: Repository, digest: str, *, artifact_type: str = ""
    ) -> tuple[Descriptor, ...]:
        assert repository == REPOSITORY
        self.counts["referrers"] += 1
        self._check("referrers")
        found = self.signatures.get(digest, [])
        return tuple(one for one in found if artifact_type in {"", one.artifact_type})

    async def read_blob(
        self, repository: Repository, descriptor: Descriptor, *, limit: int
    ) -> bytes:
        assert repository == REPOSITORY
        self.counts["blob"] += 1
        self._check(descriptor.digest)
        if descriptor.digest not in self.blobs:
            raise RegistryNotFoundError(f"no blob {descriptor.digest}")
        content = self.blobs[descriptor.digest]
        assert descriptor.size <= limit
        if len(content) != descriptor.size:
            raise RegistryError(f"blob {descriptor.digest} is not what its digest says")
        return content

    def _check(self, what: str) -> None:
        if what in self.broken:
            raise RegistryError("the registry is out of order")

    def _blob(self, content: bytes) -> Descriptor:
        digest = _digest(content)
        self.blobs[digest] = content
        return Descriptor(media_type="", digest=digest, size=len(content))

    def _put(self, manifest: dict[str, Any]) -> Descriptor:
        empty = _as_blob("application/vnd.oci.empty.v1+json", self._blob(b"{}"))
        raw = json.dumps(
            {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": empty, **manifest}
        ).encode()
        self.manifests[_digest(raw)] = raw
        return Descriptor(media_type=OCI_MANIFEST, digest=_digest(raw), size=len(raw))


def trust(authority: Authority, **others: bytes) -> dict[str, bytes]:
    """Return the certificates of a Secret; a name as ``tsa_x`` becomes ``tsa.x.crt``."""
    named = {f"{name.replace('_', '.')}.crt": content for name, content in others.items()}
    return {"ca.crt": authority.pem, **named}


def _as_blob(media_type: str, descriptor: Descriptor) -> dict[str, Any]:
    return {**as_json(descriptor), "mediaType": media_type}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _algorithm(by: Certified) -> str:
    if isinstance(by.key, ec.EllipticCurvePrivateKey):
        return {256: "ES256", 384: "ES384", 521: "ES512"}[by.key.curve.key_size]
    return {2048: "PS256", 3072: "PS384", 4096: "PS512"}[by.key.key_size]


_HASHES: Mapping[str, hashes.HashAlgorithm] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}


def _sign(by: Certified, content: bytes) -> bytes:
    digest = _HASHES[_algorithm(by)[2:]]
    if isinstance(by.key, ec.EllipticCurvePrivateKey):
        r, s = utils.decode_dss_signature(by.key.sign(content, ec.ECDSA(digest)))
        size = (by.key.curve.key_size + 7) // 8
        return r.to_bytes(size) + s.to_bytes(size)
    salted = padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH)
    return by.key.sign(content, salted, digest)
