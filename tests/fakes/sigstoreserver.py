"""A Sigstore instance as servers that real signing tools use (APIs of Fulcio, Rekor, and a TSA)."""

import base64
import hashlib
import json
import time
from contextlib import AsyncExitStack
from typing import Any, Self

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.fakes.serving import serving
from tests.fakes.sigstore import Json, Sigstore, b64, canonical

ISSUER = "https://token.actions.example.com"
SUBJECT = "https://github.com/acme/app/.github/workflows/release.yaml@refs/tags/v1.0.0"


class SigstoreServer:
    """Serves one instance on loopback while the context is open."""

    def __init__(self, sigstore: Sigstore) -> None:
        self.sigstore = sigstore
        self.url = ""
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_post("/api/v2/signingCert", self._certificate)
        application.router.add_post("/api/v1/log/entries", self._rekor)
        application.router.add_post("/api/v2/log/entries", self._rekor2)
        application.router.add_post("/api/v1/timestamp", self._timestamp)
        port = await self._open.enter_async_context(serving(application))
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def signing_config(self, *, rekor: int, timestamps: bool) -> Json:
        """Return a signing config (protobuf-specs, v0.2) that names these services."""

        def service(path: str, version: int) -> Json:
            return {
                "url": self.url + path,
                "majorApiVersion": version,
                "validFor": {"start": "2020-01-01T00:00:00Z"},
                "operator": "sigstore.test",
            }

        return {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
            "caUrls": [service("", 1)],
            "rekorTlogUrls": [service("", rekor)] if rekor else [],
            "rekorTlogConfig": {"selector": "ANY"},
            "tsaUrls": [service("/api/v1/timestamp", 1)] if timestamps else [],
            "tsaConfig": {"selector": "ANY"},
        }

    async def _certificate(self, request: web.Request) -> web.Response:
        asked = await request.json()
        token = request.headers["Authorization"].removeprefix("Bearer ")
        claims = json.loads(_unpadded(token.split(".")[1]))
        subject = claims.get("email") or claims["sub"]
        key = _requested(asked, subject)
        certificate = self.sigstore.certificate(key, subject=subject, issuer=claims["iss"])
        chain = [certificate, *self.sigstore.authority.chain]
        pem = [item.public_bytes(serialization.Encoding.PEM).decode() for item in chain]
        return web.json_response({"signedCertificateEmbeddedSct": {"chain": {"certificates": pem}}})

    async def _rekor(self, request: web.Request) -> web.Response:
        proposed = await request.json()
        body = canonical(_PROPOSALS[proposed["kind"]](proposed))
        entry = self.sigstore.rekor.add(body)
        proof = entry["inclusionProof"]
        uuid = hashlib.sha256(b"\0" + body).hexdigest()
        answer = {
            uuid: {
                "body": entry["canonicalizedBody"],
                "integratedTime": int(entry["integratedTime"]),
                "logID": self.sigstore.rekor.key_id.hex(),
                "logIndex": int(entry["logIndex"]),
                "verification": {
                    "inclusionProof": {
                        "checkpoint": proof["checkpoint"]["envelope"],
                        "hashes": [base64.b64decode(node).hex() for node in proof["hashes"]],
                        "logIndex": int(proof["logIndex"]),
                        "rootHash": base64.b64decode(proof["rootHash"]).hex(),
                        "treeSize": int(proof["treeSize"]),
                    },
                    "signedEntryTimestamp": entry["inclusionPromise"]["signedEntryTimestamp"],
                },
            }
        }
        headers = {"ETag": uuid, "Location": f"/api/v1/log/entries/{uuid}"}
        return web.json_response(answer, status=201, headers=headers)

    async def _rekor2(self, request: web.Request) -> web.Response:
        asked = (await request.json())["hashedRekordRequestV002"]
        spec = {
            "data": {"algorithm": "SHA2_256", "digest": asked["digest"]},
            "signature": asked["signature"],
        }
        body = {
            "apiVersion": "0.0.2",
            "kind": "hashedrekord",
            "spec": {"hashedRekordV002": spec},
        }
        return web.json_response(self.sigstore.rekor2.add(canonical(body)), status=201)

    async def _timestamp(self, request: web.Request) -> web.Response:
        asked = await request.read()
        start = asked.index(b"\x04\x20") + 2
        stamp = self.sigstore.stamp(asked[start : start + 32])
        return web.Response(body=stamp, status=201, content_type="application/timestamp-reply")


def identity_token(subject: str = SUBJECT, issuer: str = ISSUER, **claims: Any) -> str:
    """Return a token that nobody checks the signature of."""
    seconds = int(time.time())
    payload = {
        "iss": issuer,
        "sub": subject,
        "aud": "sigstore",
        "iat": seconds,
        "exp": seconds + 3600,
    }
    parts = [{"alg": "RS256", "typ": "JWT"}, payload | claims]
    encoded = [base64.urlsafe_b64encode(canonical(part)).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, base64.urlsafe_b64encode(b"\0" * 64).decode().rstrip("=")])


def _requested(asked: Json, subject: str) -> ec.EllipticCurvePublicKey:
    """Return the key to certify, of which both forms of a request prove the possession."""
    if "certificateSigningRequest" in asked:  # sigstore-python
        request = x509.load_pem_x509_csr(base64.b64decode(asked["certificateSigningRequest"]))
        assert request.is_signature_valid
        key = request.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        return key
    wanted = asked["publicKeyRequest"]  # cosign
    loaded = serialization.load_pem_public_key(wanted["publicKey"]["content"].encode())
    assert isinstance(loaded, ec.EllipticCurvePublicKey)
    proof = base64.b64decode(wanted["proofOfPossession"])
    loaded.verify(proof, subject.encode(), ec.ECDSA(hashes.SHA256()))
    return loaded


def _hashedrekord(proposed: Json) -> Json:
    """Rekor keeps what was proposed."""
    return proposed


def _dsse(proposed: Json) -> Json:
    """Rekor keeps hashes, and the signatures with who made them."""
    content = proposed["spec"]["proposedContent"]
    envelope = json.loads(content["envelope"])
    payload = base64.b64decode(envelope["payload"])
    return {
        "apiVersion": "0.0.1",
        "kind": "dsse",
        "spec": {
            "envelopeHash": _sha256(content["envelope"].encode()),
            "payloadHash": _sha256(payload),
            "signatures": [
                {"signature": signature["sig"], "verifier": verifier}
                for signature, verifier in zip(
                    envelope["signatures"], content["verifiers"], strict=True
                )
            ],
        },
    }


_PROPOSALS = {"hashedrekord": _hashedrekord, "dsse": _dsse}


def _sha256(data: bytes) -> Json:
    return {"algorithm": "sha256", "value": hashlib.sha256(data).hexdigest()}


def _unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


__all__ = ["ISSUER", "SUBJECT", "SigstoreServer", "b64", "identity_token"]
