"""Who may sign, and with what: refused before anything is pushed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from cli import errors
from cli.artifacts import signers, signing
from cli.artifacts.signers import Signing
from toolkit.verify.cosign import evidence, proof
from toolkit.verify.cosign.policy import Policy

DIGEST = "sha256:" + "1" * 64
KEYS = {
    "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "p521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "rsa": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
}


def said(**flags: Any) -> Signing:
    none = {"key": None, "token": "", "fulcio": "", "rekor": "", "timestamps": ""}
    more = {"sign": False, "rekor_version": 1, "trusted_root": None}
    return Signing(**{**none, **more, **flags})


def written(file: Path, key: Any, password: bytes = b"") -> Path:
    encryption: Any = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password)
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
    return file


@pytest.mark.parametrize("kind", KEYS)
def test_signature_of_every_kind_of_key_is_verified(kind: str, tmp_path: Path) -> None:
    key = KEYS[kind]()
    file = written(tmp_path / "key.pem", key)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )

    bundle = signing.with_key(signing.read_key(file, str), DIGEST)

    found = evidence.from_bundle(bundle, digest=DIGEST, manifest=None)
    assert proof.by_key(found, Policy(keys={"a.pub": public}), "it").signer.identity == "a.pub"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"no key", "holds no private key"),
        (b"-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n", "the form in which cosign encrypts"),
    ],
)
def test_key_that_cannot_be_read_is_named(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "key.pem").write_bytes(content)

    with pytest.raises(errors.UsageError, match=complaint):
        signing.read_key(tmp_path / "key.pem", str)


def test_wrong_password_is_told_and_not_shown(tmp_path: Path) -> None:
    file = written(tmp_path / "key.pem", KEYS["p256"](), b"right-password")

    with pytest.raises(errors.UsageError, match="the password is wrong") as caught:
        signing.read_key(file, lambda: "wr0ng-password")

    assert "wr0ng-password" not in str(caught.value)


def test_key_on_another_curve_does_not_sign(tmp_path: Path) -> None:
    file = written(tmp_path / "key.pem", ec.generate_private_key(ec.SECP224R1()))

    with pytest.raises(errors.UsageError, match=r"P-256, P-384, P-521"):
        signing.read_key(file, str)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"fulcio": "https://fulcio"}, "need --sign"),
        ({"key": Path("k"), "rekor": "https://rekor"}, "--key signs without Sigstore"),
        (
            {"sign": True, "fulcio": "https://fulcio"},
            "--fulcio-url, --rekor-url and --trusted-root",
        ),
        ({"sign": True, "timestamps": "https://tsa"}, "--fulcio-url, --rekor-url and --trusted-"),
        ({"sign": True, "token": "no-such-file"}, "neither a token nor a file"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(errors.UsageError, match=complaint):
        signers.signer(said(**flags), seconds=1)


def test_nothing_signs_unless_asked_for() -> None:
    assert signers.signer(said(token="a.b.c"), seconds=1) is None


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [({}, "no identity was found"), ({"BUILDKITE": "true"}, "on Buildkite give the token")],
)
def test_without_an_identity_the_remedy_is_told(
    variables: dict[str, str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "root.json"
    root.write_text("{}")

    flags = said(sign=True, fulcio="http://f", rekor="http://r", trusted_root=root)
    sign = signers.signer(flags, seconds=60)

    assert sign is not None
    with pytest.raises(errors.UsageError, match=complaint):
        asyncio.run(_sign(sign))


async def _sign(sign: Any) -> None:
    await sign(DIGEST)


def test_statement_is_about_the_digest() -> None:
    made = json.loads(signing.statement(DIGEST))

    assert made["subject"] == [{"name": "", "digest": {"sha256": "1" * 64}}]
