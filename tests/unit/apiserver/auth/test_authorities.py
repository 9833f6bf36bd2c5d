"""Which authority vouches for a client, and that no other one does."""

import contextlib
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

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


@pytest.mark.parametrize(
    ("key", "known"),
    [
        (lambda: ec.generate_private_key(ec.SECP256R1()), True),
        (lambda: ec.generate_private_key(ec.SECP521R1()), True),
        (lambda: rsa.generate_private_key(65537, 2048), True),
        (lambda: rsa.generate_private_key(65537, 1024), False),  # noqa: S505 - on purpose
        (ed25519.Ed25519PrivateKey.generate, False),
    ],
    ids=["P-256", "P-521", "RSA 2048", "RSA 1024", "Ed25519"],
)
def test_authorities_have_keys_of_the_web(key: Callable[[], Any], *, known: bool) -> None:
    made, now = key(), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "clients")])

    def signed(subject: x509.Name, public: Any, *, ca: bool) -> x509.Certificate:
        builder = x509.CertificateBuilder(
            name, subject, public, x509.random_serial_number(), now, now + dt.timedelta(days=1)
        ).add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        algorithm = None if isinstance(made, ed25519.Ed25519PrivateKey) else hashes.SHA256()
        return builder.sign(made, algorithm)

    alice = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "alice")])
    client = ec.generate_private_key(ec.SECP256R1()).public_key()
    bundle = signed(name, made.public_key(), ca=True).public_bytes(Encoding.PEM)
    shown = signed(alice, client, ca=False).public_bytes(Encoding.DER)
    outcome = contextlib.nullcontext() if known else pytest.raises(UntrustedError)

    with outcome:
        assert Authorities(bundle).verify(shown).subject == alice


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
