"""What a sender claims of its body is understood or refused, never guessed."""

import base64
import hashlib

import pytest

from toolkit.artifact.intake import Claims, DigestMismatchError

SHA256 = hashlib.sha256(b"x")
SHA512 = hashlib.sha512(b"x")


def encoded(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def test_no_claim_is_no_claim() -> None:
    assert Claims.of({}).digests == {}


def test_both_headers_are_understood() -> None:
    claims = Claims.of(
        {
            "X-Artifact-Digest": f"sha256:{SHA256.hexdigest()}",
            "Digest": f"SHA-512={encoded(SHA512.digest())}, md5=eA==",
        }
    )

    assert claims.digests == {"sha256": SHA256.hexdigest(), "sha512": SHA512.hexdigest()}


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Artifact-Digest": SHA256.hexdigest()},
        {"X-Artifact-Digest": "md5:00"},
        {"X-Artifact-Digest": f"sha256:{SHA256.hexdigest()[:-1]}"},
        {"X-Artifact-Digest": f"sha256:{SHA256.hexdigest().upper()}"},
        {"Digest": "sha-256=xyz"},
        {"Digest": "sha-256"},
        {"Digest": f"sha-256={SHA256.hexdigest()}"},
        {
            "X-Artifact-Digest": f"sha256:{SHA256.hexdigest()}",
            "Digest": f"sha-256={encoded(hashlib.sha256(b'y').digest())}",
        },
    ],
)
def test_a_malformed_claim_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(DigestMismatchError, match="not of the form"):
        Claims.of(headers)
