"""Which authority vouches for a client, and that no other one does."""

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from apiserver.auth.authorities import Authorities, BundleError, UntrustedError
from controlplane.certificates import Authority, KeyPair


def der(pair: KeyPair) -> bytes:
    return x509.load_pem_x509_certificate(pair.certificate).public_bytes(Encoding.DER)


@pytest.fixture
def ours() -> Authority:
    return Authority.create("clients")


def test_a_client_of_the_authority_is_known(ours: Authority) -> None:
    leaf = Authorities(ours.pair.certificate).verify(der(ours.client("alice")))

    assert leaf.subject.rfc4514_string() == "CN=alice"


def test_a_client_of_another_authority_is_not(ours: Authority) -> None:
    other = Authority.create("clients")  # of the same name, with another key

    with pytest.raises(UntrustedError):
        Authorities(ours.pair.certificate).verify(der(other.client("alice")))


def test_every_authority_of_a_bundle_counts(ours: Authority) -> None:
    other = Authority.create("others")
    both = Authorities(other.pair.certificate + ours.pair.certificate)

    assert both.verify(der(ours.client("alice")))
    assert both.verify(der(other.client("alice")))


def test_a_servers_certificate_is_no_clients(ours: Authority) -> None:
    with pytest.raises(UntrustedError):
        Authorities(ours.pair.certificate).verify(der(ours.serving("alice", hosts=("a.b",))))


def test_a_client_is_no_authority(ours: Authority) -> None:
    alice = ours.client("alice")
    forged = Authority.load(KeyPair(certificate=alice.certificate, key=alice.key)).client("root")

    with pytest.raises(UntrustedError):
        Authorities(ours.pair.certificate + alice.certificate).verify(der(forged))


def test_a_certificate_counts_only_as_long_as_it_is_valid(ours: Authority) -> None:
    now = dt.datetime.now(dt.UTC)
    known = Authorities(ours.pair.certificate, clock=lambda: now)
    alice = der(ours.client("alice"))
    assert known.verify(alice)

    now += dt.timedelta(days=366)

    with pytest.raises(UntrustedError):
        known.verify(alice)


def test_a_certificate_counts_only_as_long_as_its_authority_is_valid() -> None:
    now = dt.datetime.now(dt.UTC)
    authority = _authority(until=now + dt.timedelta(days=1))
    known = Authorities(authority.pair.certificate, clock=lambda: now)
    alice = der(authority.client("alice"))
    assert known.verify(alice)

    now += dt.timedelta(days=2)

    with pytest.raises(UntrustedError):
        known.verify(alice)


def _authority(*, until: dt.datetime) -> Authority:
    """Return an authority that ends before those that it has certified."""
    made = Authority.create("clients").pair
    key = load_pem_private_key(made.key, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    old = x509.load_pem_x509_certificate(made.certificate)
    builder = x509.CertificateBuilder(
        issuer_name=old.issuer,
        subject_name=old.subject,
        public_key=old.public_key(),
        serial_number=old.serial_number,
        not_valid_before=old.not_valid_before_utc,
        not_valid_after=until,
        extensions=list(old.extensions),
    )
    text = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return Authority.load(KeyPair(certificate=text, key=made.key))


def test_no_authorities_vouch_for_nobody(ours: Authority) -> None:
    with pytest.raises(UntrustedError):
        Authorities(b"").verify(der(ours.client("alice")))


def test_what_is_no_certificate_is_refused(ours: Authority) -> None:
    with pytest.raises(UntrustedError):
        Authorities(ours.pair.certificate).verify(b"\x30\x03abc")
    with pytest.raises(BundleError):
        Authorities(b"-----BEGIN NONSENSE-----")
