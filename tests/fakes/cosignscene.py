"""One artifact, who may have signed it, and what becomes of its verification."""

import json
from typing import Final

import pytest
from cryptography.hazmat.primitives import serialization

from tests.fakes.cosignsigner import BUNDLE, ISSUER
from tests.fakes.signaturestore import SignatureStore
from tests.fakes.sigstore import Json, SigningKey, Sigstore, canonical
from toolkit.verify.cosign import cosign
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.signature import Proof, VerificationError

ANYONE: Final = [("^" + ISSUER + "$", "^https://github.com/acme/app/.*$")]
ARTIFACT: Final = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.cncf.flux.config.v1+json",
            "digest": "sha256:" + "44" * 32,
            "size": 2,
        },
        "layers": [],
    }
).encode()
ANOTHER: Final = "sha256:" + "ab" * 32


def trusting(sigstore: Sigstore, identities: list[tuple[str, str]] | None = None) -> cosign.Policy:
    root = {"trusted_root.json": sigstore.trusted_root()}
    return cosign.Policy.keyless(identities or ANYONE, root)


def pem(key: SigningKey) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def attach(store: SignatureStore, bundle: Json, **annotations: str) -> None:
    store.attach(canonical(bundle), BUNDLE, annotations=annotations)


async def verify(store: SignatureStore, policy: cosign.Policy) -> Proof:
    return await cosign.verify(store.subject, policy, public_root=PublicRoot(offline=True))


async def refusal(store: SignatureStore, policy: cosign.Policy) -> VerificationError:
    with pytest.raises(VerificationError) as caught:
        await verify(store, policy)
    return caught.value
