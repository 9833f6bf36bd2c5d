"""A root that users make with cosign for their own instance says what our verifier needs."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from tests.fakes import cosignsigner
from tests.fakes.cosignscene import ANYONE, ARTIFACT, attach, verify
from tests.fakes.signaturestore import SignatureStore
from tests.fakes.sigstore import Authority, Log, SigningKey, Sigstore
from tests.tools.cosigncases import Cosign
from toolkit.verify.cosign import cosign
from toolkit.verify.cosign.policy import TRUSTED_ROOT

SINCE = "start-time=2020-01-01T00:00:00Z"


async def made_by_cosign(cli: Cosign, sigstore: Sigstore, directory: Path) -> bytes:
    """Run ``cosign trusted-root create`` on an instance's keys and certificates."""

    def key(name: str, key: SigningKey) -> Path:
        path = directory / f"{name}.pub"
        path.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        return path

    def chain(name: str, authority: Authority) -> Path:
        path = directory / f"{name}.pem"
        path.write_bytes(
            b"".join(item.public_bytes(serialization.Encoding.PEM) for item in authority.chain)
        )
        return path

    def log(log: Log) -> str:
        public = key(log.origin, log.key)
        origin = f",origin={log.origin}" if log.version == 2 else ""
        return f"--rekor=url=https://{log.origin},public-key={public},{SINCE}{origin}"

    authority = chain("fulcio", sigstore.authority)
    timestamps = chain("tsa", sigstore.timestamps)
    certificates = key("ctfe", sigstore.certificate_log)
    out = directory / "made.json"
    await cli.run(
        "trusted-root",
        "create",
        f"--fulcio=url=https://fulcio.test,certificate-chain={authority},{SINCE}",
        log(sigstore.rekor),
        log(sigstore.rekor2),
        f"--ctfe=url=https://ctfe.test,public-key={certificates},{SINCE}",
        f"--tsa=url=https://tsa.test,certificate-chain={timestamps},{SINCE}",
        f"--out={out}",
    )
    return out.read_bytes()


@pytest.mark.parametrize("version", [1, 2])
async def test_root_made_by_cosign_is_enough(
    cosign_cli: Cosign, sigstore: Sigstore, tmp_path: Path, version: int
) -> None:
    root = await made_by_cosign(cosign_cli, sigstore, tmp_path)
    store = SignatureStore(ARTIFACT)
    log = sigstore.rekor if version == 1 else sigstore.rekor2
    attach(store, cosignsigner.keyless(sigstore, store.digest, log=log, stamped_by=sigstore))

    assert await verify(store, cosign.Policy.keyless(ANYONE, {TRUSTED_ROOT: root}))
