"""What a trusted root holds counts for its time only, and in the order that it is given in."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.fakes import cosignsigner, sigstore
from tests.fakes.cosignsigner import BUNDLE, ISSUER
from tests.fakes.signaturestore import SignatureStore
from tests.fakes.sigstore import Sigstore, b64, canonical, now
from toolkit.verify.cosign import cosign, trustedroot
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.cosign.steps import Step
from toolkit.verify.signature import Proof, VerificationError

ARTIFACT = b'{"schemaVersion": 2, "layers": [], "config": null}'
OVER = {"start": "2020-01-01T00:00:00Z", "end": "2021-01-01T00:00:00Z"}
TO_COME = {"start": "2222-01-01T00:00:00Z"}

Change = Callable[[dict[str, Any]], None]


async def verify(instance: Sigstore, change: Change, **signature: Any) -> Proof:
    """Verify a signature against the instance's root as it was changed."""
    root = json.loads(instance.trusted_root())
    change(root)
    store = SignatureStore(ARTIFACT)
    bundle = cosignsigner.keyless(instance, store.digest, **signature)
    store.attach(canonical(bundle), BUNDLE)
    policy = cosign.Policy.keyless(
        [("^" + ISSUER + "$", ".*")], {"trusted_root.json": json.dumps(root).encode()}
    )
    return await cosign.verify(store.subject, policy, public_root=PublicRoot(offline=True))


def period(section: str, valid: dict[str, str]) -> Change:
    def change(root: dict[str, Any]) -> None:
        for item in root[section]:
            item.get("publicKey", item)["validFor"] = valid

    return change


def without(section: str) -> Change:
    return lambda root: root.update({section: []})


@pytest.mark.parametrize("valid", [OVER, TO_COME])
@pytest.mark.parametrize(
    ("section", "step"),
    [
        ("tlogs", Step.LOGGED),
        ("timestampAuthorities", Step.TIME),
        ("certificateAuthorities", Step.CERTIFICATE),
        ("ctlogs", Step.CERTIFICATE_LOGGED),
    ],
)
async def test_trust_counts_within_its_time_only(
    section: str, step: Step, valid: dict[str, str]
) -> None:
    instance = Sigstore()

    with pytest.raises(VerificationError) as caught:
        await verify(instance, period(section, valid), log=instance.rekor2, stamped_by=instance)

    assert caught.value.step == step


async def test_timestamp_made_after_the_end_of_its_authoritys_certificate_is_refused() -> None:
    instance = Sigstore()
    instance.timestamps = sigstore.authority(
        "timestamps",
        ExtendedKeyUsageOID.TIME_STAMPING,
        ca=False,
        end=now() - timedelta(minutes=1),
    )

    with pytest.raises(VerificationError) as caught:
        await verify(instance, lambda _: None, log=instance.rekor2, stamped_by=instance)

    assert caught.value.step == Step.TIME


async def test_trust_that_has_ended_counts_for_what_was_signed_before() -> None:
    time = now() - timedelta(days=500)
    end = (time + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = {"start": "2020-01-01T00:00:00Z", "end": end}

    def change(root: dict[str, Any]) -> None:
        for section in ("tlogs", "timestampAuthorities", "certificateAuthorities", "ctlogs"):
            period(section, ended)(root)

    assert await verify(Sigstore(), change, time=time)


@pytest.mark.parametrize(
    ("section", "step"),
    [
        ("tlogs", Step.LOGGED),
        ("timestampAuthorities", Step.TIME),
        ("certificateAuthorities", Step.CERTIFICATE),
        ("ctlogs", Step.CERTIFICATE_LOGGED),
    ],
)
async def test_what_a_root_leaves_away_is_not_trusted(section: str, step: Step) -> None:
    instance = Sigstore()

    with pytest.raises(VerificationError) as caught:
        await verify(instance, without(section), log=instance.rekor2, stamped_by=instance)

    assert caught.value.step == step


async def test_authority_without_its_own_certificate_is_enough_for_timestamps() -> None:
    """The certificate that signs may come with the timestamp; its authority must be trusted."""
    instance = Sigstore()

    def change(root: dict[str, Any]) -> None:
        root["timestampAuthorities"][0]["certChain"]["certificates"].pop(0)

    assert await verify(instance, change, log=instance.rekor2, stamped_by=instance)


def _shuffled(root: dict[str, Any]) -> None:
    root["certificateAuthorities"][0]["certChain"]["certificates"].append(
        root["certificateAuthorities"][0]["certChain"]["certificates"][0]
    )


def _foreign(root: dict[str, Any]) -> None:
    other = json.loads(Sigstore().trusted_root())["certificateAuthorities"][0]["certChain"]
    chain = root["certificateAuthorities"][0]["certChain"]["certificates"]
    chain[1] = other["certificates"][1]


@pytest.mark.parametrize("change", [_shuffled, _foreign])
async def test_chain_that_does_not_hold_together_is_refused(change: Change) -> None:
    with pytest.raises(VerificationError) as caught:
        await verify(Sigstore(), change)

    assert caught.value.step == Step.CERTIFICATE
    assert "chain of https://fulcio.sigstore.test is broken" in str(caught.value)


@pytest.mark.parametrize(
    "constraints",
    [
        None,
        x509.BasicConstraints(ca=False, path_length=None),
    ],
)
async def test_certificate_that_may_not_issue_others_issues_none(
    constraints: x509.BasicConstraints | None,
) -> None:
    instance = Sigstore()
    key = ec.generate_private_key(ec.SECP256R1())
    builder = sigstore.self_made("leaf", key, "leaf", key)
    if constraints:
        builder = builder.add_extension(constraints, critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    instance.authority = sigstore.Authority(root=certificate, certificate=certificate, key=key)

    def change(root: dict[str, Any]) -> None:
        raw = b64(certificate.public_bytes(Encoding.DER))
        root["certificateAuthorities"][0]["certChain"]["certificates"] = [{"rawBytes": raw}]

    with pytest.raises(VerificationError) as caught:
        await verify(instance, change)

    assert caught.value.step == Step.CERTIFICATE
    assert "may not issue such a certificate" in str(caught.value)


@pytest.mark.parametrize("section", ["tlogs", "ctlogs"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda log: log["publicKey"].pop("validFor"), "no start in its validFor"),
        (lambda log: log["publicKey"]["validFor"].pop("start"), "no start in its validFor"),
        (lambda log: log["publicKey"].update(validFor=None), "no start in its validFor"),
        (lambda log: log.pop("hashAlgorithm"), "is not SHA2_256"),
        (lambda log: log.update(hashAlgorithm="SHA2_512"), "is not SHA2_256"),
    ],
)
def test_log_without_a_start_or_of_another_hash_is_refused(
    section: str, change: Change, words: str
) -> None:
    root = json.loads(Sigstore().trusted_root())
    change(root[section][0])

    with pytest.raises(VerificationError, match=words):
        trustedroot.read(json.dumps(root).encode())


@pytest.mark.parametrize(
    "change",
    [
        lambda root: root["tlogs"][0]["publicKey"].update(rawBytes="AAAA"),
        lambda root: root["tlogs"][0].pop("logId"),
        lambda root: root["tlogs"][0]["publicKey"].update(rawBytes="not base64"),
        lambda root: root["ctlogs"][0]["publicKey"].update(validFor={"start": "yesterday"}),
        lambda root: root["certificateAuthorities"][0]["certChain"].update(certificates=[]),
        lambda root: root["certificateAuthorities"][0]["certChain"].update(
            certificates=[{"rawBytes": "AAAA"}]
        ),
    ],
)
def test_root_that_is_damaged_is_refused(change: Change) -> None:
    root = json.loads(Sigstore().trusted_root())
    change(root)

    with pytest.raises(VerificationError, match="the trusted root cannot be read"):
        trustedroot.read(json.dumps(root).encode())
