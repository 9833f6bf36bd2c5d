"""Certificates as an independent verifier sees them."""

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from controlplane import certificates
from controlplane.certificates import Authority, KeyPair


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("test-ca")


def test_serving_certificate_is_valid_for_its_hosts(authority: Authority) -> None:
    pair = authority.serving("server", hosts=("localhost", "127.0.0.1"))

    verifier = _policy(authority).build_server_verifier(x509.DNSName("localhost"))

    assert len(verifier.verify(_certificate(pair), [])) == 2


def test_serving_certificate_is_valid_for_no_other_host(authority: Authority) -> None:
    pair = authority.serving("server", hosts=("localhost",))
    verifier = _policy(authority).build_server_verifier(x509.DNSName("example.com"))

    with pytest.raises(VerificationError):
        verifier.verify(_certificate(pair), [])


def test_client_certificate_names_user_and_groups(authority: Authority) -> None:
    certificate = _certificate(authority.client("alice", groups=("a", "b")))

    groups = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    users = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert {each.value for each in groups} == {"a", "b"}
    assert [each.value for each in users] == ["alice"]
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_certificate_of_another_authority_is_refused(authority: Authority) -> None:
    pair = Authority.create("test-ca").serving("server", hosts=("localhost",))
    verifier = _policy(authority).build_server_verifier(x509.DNSName("localhost"))

    with pytest.raises(VerificationError):
        verifier.verify(_certificate(pair), [])


def test_authority_can_be_taken_up_again(authority: Authority) -> None:
    again = Authority.load(authority.pair)
    pair = again.serving("server", hosts=("localhost",))

    verifier = _policy(authority).build_server_verifier(x509.DNSName("localhost"))

    assert verifier.verify(_certificate(pair), [])


def test_private_keys_are_readable_by_nobody_else(authority: Authority, tmp_path: Path) -> None:
    authority.pair.write(tmp_path, "ca")

    assert (tmp_path / "ca.key").stat().st_mode & 0o777 == 0o600
    assert b"PRIVATE KEY" in (tmp_path / "ca.key").read_bytes()
    assert b"PRIVATE KEY" not in (tmp_path / "ca.crt").read_bytes()


def test_key_is_not_shown(authority: Authority) -> None:
    assert "PRIVATE" not in repr(authority.pair)


def test_signing_key_comes_with_its_public_half() -> None:
    private, public = certificates.signing_key()

    assert b"PRIVATE KEY" in private
    assert b"PUBLIC KEY" in public


def _policy(authority: Authority) -> PolicyBuilder:
    return PolicyBuilder().store(Store([_certificate(authority.pair)]))


def _certificate(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)
