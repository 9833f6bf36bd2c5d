"""Which certificates may sign, by Fulcio's profile; each case is wrong in one thing."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from tests.fakes import der, sigstore
from tests.fakes.cosignsigner import ISSUER, SUBJECT
from tests.fakes.sigstore import Sigstore, key_usage, now
from toolkit.verify.cosign import fulcio, trustedroot
from toolkit.verify.cosign.steps import Step
from toolkit.verify.signature import VerificationError

CODE_SIGNING = ExtendedKeyUsageOID.CODE_SIGNING
STRANGE = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")


def issue(instance: Sigstore, **certificate: Any) -> x509.Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    return instance.certificate(
        key.public_key(), **{"subject": SUBJECT, "issuer": ISSUER} | certificate
    )


def check(instance: Sigstore, certificate: x509.Certificate) -> None:
    fulcio.check(certificate, [now()], trustedroot.read(instance.trusted_root()))


def step(instance: Sigstore, certificate: x509.Certificate) -> int:
    with pytest.raises(VerificationError) as caught:
        check(instance, certificate)
    return caught.value.step


def test_certificate_as_fulcio_issues_it_may_sign() -> None:
    instance = Sigstore()

    check(instance, issue(instance))


@pytest.mark.parametrize(
    "certificate",
    [
        {"usage": key_usage()},
        {"usage": key_usage(digital_signature=True, key_cert_sign=True)},
        {"more": [x509.BasicConstraints(ca=True, path_length=None)]},
        {"more": [STRANGE]},
        {"purpose": ExtendedKeyUsageOID.CLIENT_AUTH},
    ],
)
def test_certificate_that_is_for_anything_else_may_not(certificate: dict[str, Any]) -> None:
    instance = Sigstore()

    assert step(instance, issue(instance, **certificate)) == Step.CERTIFICATE


@pytest.mark.parametrize(
    "authority",
    [
        lambda: sigstore.authority("fulcio", CODE_SIGNING, ca=False),
        lambda: sigstore.authority("fulcio", CODE_SIGNING, ca=True, root_path=0),
        lambda: sigstore.authority("fulcio", CODE_SIGNING, ca=True, more=[STRANGE]),
        lambda: sigstore.authority(
            "fulcio", CODE_SIGNING, ca=True, end=now() - timedelta(minutes=1)
        ),
    ],
    ids=["no authority", "chain too long", "strange extension", "expired"],
)
def test_authority_that_may_not_issue_it_counts_for_nothing(
    authority: Callable[[], sigstore.Authority],
) -> None:
    instance = Sigstore()
    instance.authority = authority()

    assert step(instance, issue(instance)) == Step.CERTIFICATE


def test_certificate_with_a_damaged_extension_is_refused() -> None:
    instance = Sigstore()
    damaged = x509.UnrecognizedExtension(ExtensionOID.BASIC_CONSTRAINTS, b"\xff")

    with pytest.raises(VerificationError, match="its certificate cannot be read"):
        check(instance, issue(instance, more=[damaged]))


def test_certificate_with_a_weak_hash_is_refused() -> None:
    instance = Sigstore()
    good = issue(instance)
    builder = x509.CertificateBuilder(
        issuer_name=good.issuer,
        subject_name=good.subject,
        public_key=good.public_key(),
        serial_number=good.serial_number,
        not_valid_before=good.not_valid_before_utc,
        not_valid_after=good.not_valid_after_utc,
        extensions=list(good.extensions),
    )

    weak = builder.sign(instance.authority.key, hashes.SHA224())

    assert step(instance, weak) == Step.CERTIFICATE


def test_timestamp_of_another_certificate_is_refused() -> None:
    instance = Sigstore()
    other = issue(instance).extensions.get_extension_for_oid(
        ExtensionOID.PRECERT_SIGNED_CERTIFICATE_TIMESTAMPS
    )
    _, _, timestamps = other.value.public_bytes().partition(b"\x04")
    # What is left is a length of one octet with its marker, and the list.
    copied = issue(instance, timestamps=timestamps[1:] if timestamps[0] < 0x80 else timestamps[2:])

    assert step(instance, copied) == Step.CERTIFICATE_LOGGED


def test_newer_claim_of_the_issuer_goes_before_the_older() -> None:
    instance, key = Sigstore(), ec.generate_private_key(ec.SECP256R1())
    certificate = instance.certificate(key.public_key(), subject=SUBJECT, issuer=ISSUER)

    claims = fulcio.claims(certificate)

    assert (claims.issuer, claims.subjects) == (ISSUER, (SUBJECT,))


def bare(*extensions: x509.ExtensionType) -> x509.Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = sigstore.self_made("x", key, "x", key)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(key, hashes.SHA256())


def claim(arc: int, value: bytes) -> x509.UnrecognizedExtension:
    oid = x509.ObjectIdentifier(f"1.3.6.1.4.1.57264.1.{arc}")
    return x509.UnrecognizedExtension(oid, value)


NAME = x509.SubjectAlternativeName([x509.RFC822Name("ann@example.com")])


def test_older_claim_of_the_issuer_counts_alone() -> None:
    claims = fulcio.claims(bare(NAME, claim(1, b"https://old.test")))

    assert claims.issuer == "https://old.test"


def test_user_name_can_be_the_subject() -> None:
    kind = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.7")
    name = x509.SubjectAlternativeName([x509.OtherName(kind, der.tlv(0x0C, b"ann!example.com"))])

    claims = fulcio.claims(bare(name, claim(8, der.tlv(0x0C, b"i" * 200))))

    assert claims.subjects == ("ann!example.com",)
    assert claims.issuer == "i" * 200


@pytest.mark.parametrize(
    "extensions",
    [
        (NAME,),
        (claim(8, der.tlv(0x0C, b"issuer")),),
        (NAME, claim(8, b"issuer")),
        (NAME, claim(8, b"\x0c\x7fissuer")),
        (NAME, claim(8, b"")),
        (NAME, claim(1, b"\xff")),
    ],
)
def test_certificate_that_does_not_tell_who_it_is_for_is_refused(
    extensions: tuple[x509.ExtensionType, ...],
) -> None:
    with pytest.raises(VerificationError) as caught:
        fulcio.claims(bare(*extensions))

    assert caught.value.step == Step.IDENTITY
