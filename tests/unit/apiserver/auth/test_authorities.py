"""Which authority vouches for a client, and that no other one does."""

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

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


def test_no_authorities_vouch_for_nobody(ours: Authority) -> None:
    with pytest.raises(UntrustedError):
        Authorities(b"").verify(der(ours.client("alice")))


def test_what_is_no_certificate_is_refused(ours: Authority) -> None:
    with pytest.raises(UntrustedError):
        Authorities(ours.pair.certificate).verify(b"\x30\x03abc")
    with pytest.raises(BundleError):
        Authorities(b"-----BEGIN NONSENSE-----")
