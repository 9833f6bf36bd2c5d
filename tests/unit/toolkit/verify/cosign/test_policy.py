"""Whom a policy trusts, what it refuses to be made of, and when its trust changes."""

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.sigstore import Sigstore
from toolkit.verify.cosign import cosign
from toolkit.verify.cosign import policy as cosignpolicy
from toolkit.verify.cosign.cosign import Identity, Policy
from toolkit.verify.signature import VerificationError

ANN = ("^https://issuer.example$", "^ann@example.com$")


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | dsa.DSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


KEY = pem(ec.generate_private_key(ec.SECP256R1()))
SHORT = pem(rsa.generate_private_key(public_exponent=65537, key_size=1024))  # noqa: S505  # weak


def test_only_pub_keys_of_the_secret_are_trusted() -> None:
    policy = Policy.from_secret({"a.pub": KEY, "password": b"x", "b.pub": KEY})

    assert sorted(policy.keys) == ["a.pub", "b.pub"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "holds no public key"),
        ({"cosign.key": KEY}, "holds no public key"),
        ({"a.pub": b"nothing"}, "'a.pub' in the secret is not a public key"),
        ({"a.pub": b""}, "'a.pub' in the secret is not a public key"),
        ({"a.pub": SHORT}, "RSA keys have 2048"),
        ({"a.pub": pem(ec.generate_private_key(ec.SECP256K1()))}, "curve secp256k1"),
        ({"a.pub": pem(dsa.generate_private_key(key_size=2048))}, "only RSA, ECDSA"),
    ],
)
def test_secret_without_usable_keys_is_refused(data: dict[str, bytes], message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        Policy.from_secret(data)


@pytest.mark.parametrize(
    ("identities", "message"),
    [
        ([], "no signer is trusted"),
        ([("", "x")], "an empty issuer"),
        ([ANN, ("x", "")], "an empty subject"),
        ([("(", "x")], r"not a regular expression \(RE2\): missing"),
        ([("x", "(?=x)")], "not a regular expression"),
        ([("x", "a" * 5000)], "subject of more than 4096 characters"),
        ([ANN] * 1000, "more than 256"),
        ([("x", "a" * 4000)] * 20, "more than 65536 instructions: use fewer or simpler patterns"),
    ],
)
def test_identities_that_are_none_are_refused(
    identities: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(VerificationError, match=message):
        Policy.keyless(identities)


def test_keys_and_identities_exclude_each_other() -> None:
    identity = Identity(issuer="x", subject="x")

    with pytest.raises(VerificationError, match="cannot both"):
        Policy(keys={"a.pub": KEY}, identities=(identity,))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "has no 'trusted_root.json'"),
        ({"trusted_root.json": b"{}"}, "the trusted root cannot be read"),
        (
            {"trusted_root.json": b'{"mediaType": "x"}'},
            "mediaType of the trusted root is not known",
        ),
        ({"trusted_root.json": b" " * (2 << 20)}, "larger than"),
    ],
)
def test_trusted_root_that_is_none_is_refused(data: dict[str, bytes], message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        Policy.keyless([ANN], data)


def test_identity_matches_anywhere_unless_it_is_anchored() -> None:
    loose = Identity(issuer="issuer.example", subject="ann")
    strict = Identity(issuer=ANN[0], subject=ANN[1])

    assert loose.matches("https://issuer.example.evil", "joanna")
    assert strict.matches("https://issuer.example", "ann@example.com")
    assert not strict.matches("https://issuer.example.evil", "ann@example.com")
    assert not strict.matches("https://issuer.example", "ann@example.com\n")
    assert not strict.matches("https://issuer.example", "eve@example.com\nann@example.com")


@pytest.mark.parametrize(
    "pattern",
    ["^a$", "^(a|b)$", "^a$|^b$", r"\Aa\z", "(?i)^a$", "^[|]$", r"^a[)|]b$", r"^\Qa|b\E$", r"^\\$"],
)
def test_anchored_patterns_are_told(pattern: str) -> None:
    assert not cosign.unanchored(Identity(issuer="^x$", subject=pattern))


@pytest.mark.parametrize(
    "pattern",
    [
        "a",
        "^a",
        "a$",
        "^a|b$",
        "^a$|b",
        r"^a\$",
        "(?m)^a$",
        ".*",
        "^",
        r"^a\\\$",
        "(?im)^a$",
        "^a$|",
    ],
)
def test_patterns_that_more_than_meant_can_match_are_told(pattern: str) -> None:
    assert cosign.unanchored(Identity(issuer="^x$", subject=pattern))
    assert cosign.unanchored(Identity(issuer=pattern, subject="^x$"))


@given(st.text(alphabet="^$|()[]\\aAzQE.*m?", max_size=12))
def test_no_anchored_pattern_matches_within_more(pattern: str) -> None:
    try:
        cosignpolicy._compiled(pattern)
    except Exception:  # noqa: BLE001  # the library's own kind of error
        return
    identity = Identity(issuer=pattern, subject=pattern)
    if cosign.unanchored(identity):
        return

    for text in ("a", "b", "z", "aa", "Q|E"):
        if identity.matches(text, text):
            more = f"!{text}", f"{text}!", f"!{text}!", f"!\n{text}\n!"
            # What an anchored pattern matches in more than a text, it matches as a whole.
            whole = Identity(issuer=f"^(?:{pattern})$", subject=f"^(?:{pattern})$")
            assert all(identity.matches(x, x) == whole.matches(x, x) for x in more)


def test_trust_changes_with_everything_that_is_trusted() -> None:
    first, second = Sigstore().trusted_root(), Sigstore().trusted_root()
    other = pem(ec.generate_private_key(ec.SECP256R1()))
    root = {"trusted_root.json": first}
    policies = [
        Policy.from_secret({"a.pub": KEY}),
        Policy.from_secret({"a.pub": other}),
        Policy.from_secret({"renamed.pub": KEY}),
        Policy.from_secret({"a.pub": KEY, "b.pub": other}),
        Policy.keyless([ANN]),
        Policy.keyless([ANN, ("x", "y")]),
        Policy.keyless([("x", "y")]),
        Policy.keyless([ANN], root),
        Policy.keyless([ANN], {"trusted_root.json": second}),
    ]

    assert len({policy.trust for policy in policies}) == len(policies)
    assert Policy.keyless([ANN], root).trust == Policy.keyless([ANN], dict(root)).trust
