"""Trust policies that cannot be used are refused with the field and what to do."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import notary
from tests.fakes.revocation import Authority
from toolkit.verify.notation.policy import Policy
from toolkit.verify.signature import VerificationError

_AUTHORITY = Authority()
_CERTIFICATES = {"ca.crt": _AUTHORITY.pem}


def _document(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(notary.document())
    document["trustPolicies"][0] |= changes
    return document


def _policy(document: object, **certificates: bytes) -> Policy:
    content = json.dumps(document).encode()
    return Policy(document=content, certificates=certificates or _CERTIFICATES)


def _verification(**fields: Any) -> dict[str, Any]:
    return _document(signatureVerification=fields)


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([], "not a trust policy document"),
        (
            {"version": "2.0", "trustPolicies": []},
            "version in 'trustpolicy.json': it is not supported",
        ),
        ({"version": "1.0", "trustPolicies": []}, "give 1 to 256 statements"),
        (_document(name=""), "trustPolicies[0].name"),
        (_document(registryScopes=[]), "trustPolicies[0].registryScopes in"),
        (_document(registryScopes=["*", "a.io/b"]), "must stand alone"),
        (
            _document(registryScopes=["a.io/team/*"]),
            "registryScopes[0] in 'trustpolicy.json': it is not a repository",
        ),
        (_document(registryScopes=["https://a.io/team"]), "without scheme"),
        (_document(registryScopes=["a.io/team:v1"]), "is not a repository"),
        (_document(registryScopes=["team"]), "is not a repository"),
        (_document(registryScopes=["a.io/" + "a" * 600]), "is not a repository"),
        (_document(trustStores=[]), "names no authority"),
        (_document(trustStores=["tsa:clock"]), "names no authority"),
        (
            _document(trustStores=["ca"]),
            "trustStores[0] in 'trustpolicy.json': it is not a trust store",
        ),
        (_document(trustStores=["pgp:x"]), "is not a trust store"),
        (_document(trustStores=["ca:../x"]), "is not a trust store"),
        (_document(trustedIdentities=[]), "trustedIdentities in 'trustpolicy.json': is empty"),
        (_document(trustedIdentities=["*", "x509.subject: C=US"]), "must stand alone"),
        (_document(trustedIdentities=["x509.subject: CN=x"]), "at least these parts"),
        (
            _document(trustedIdentities=["someone"]),
            "trustedIdentities[0] in 'trustpolicy.json': it is not an identity",
        ),
        (_document(signatureVerification={}), "level: it is missing: write it"),
        (_verification(level="lax"), "use one of strict, permissive, audit, skip"),
        (_verification(level="skip"), "level skip looks at no trustStores"),
        (_verification(level="skip", override={"expiry": "log"}), "nothing to override"),
        (_verification(level="strict", override={"integrity": "log"}), "cannot be overridden"),
        (
            _verification(level="strict", override={"expiry": "skip"}),
            "override.expiry in 'trustpolicy.json': it is not valid",
        ),
        (_verification(level="strict", override={"revocation": "no"}), "enforce or log or skip"),
        (_verification(level="strict", override={"Revocation": "log"}), "cannot be overridden"),
        (_verification(level="strict", verifyTimestamp="never"), "always or afterCertExpiry"),
    ],
)
def test_a_bad_document_is_refused_with_field_and_remedy(document: object, complaint: str) -> None:
    with pytest.raises(VerificationError) as refused:
        _policy(document)

    assert complaint in str(refused.value)
    assert refused.value.step == 1


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["*", "skip"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(
    field=st.sampled_from(
        ["name", "registryScopes", "signatureVerification", "trustStores", "trustedIdentities"]
    ),
    value=_VALUES | st.lists(st.text(max_size=40), max_size=3),
)
def test_any_document_is_read_or_refused(field: str, value: object) -> None:
    with suppress(VerificationError):
        assert _policy(_document(**{field: value})).statements[0].scopes


_WORD = "xyzzy"


@pytest.mark.parametrize(
    "document",
    [
        {"version": _WORD, "trustPolicies": []},
        _document(registryScopes=[f"a.io/{_WORD}:v1"]),
        _document(trustStores=[_WORD]),
        _document(trustStores=["ca:x", _WORD], name=_WORD),
        _document(trustedIdentities=[_WORD]),
        _verification(level=_WORD),
        _verification(level="strict", override={_WORD: "log"}),
        _verification(level="strict", override={"expiry": _WORD}),
        _verification(level="strict", verifyTimestamp=_WORD),
        {"version": "1.0", "trustPolicies": [_document(name=_WORD)["trustPolicies"][0]] * 2},
        {"version": "1.0", "trustPolicies": [{"name": _WORD}]},
        {"version": "1.0", "trustPolicies": [{_WORD: 1}]},
    ],
)
def test_a_refusal_repeats_nothing_of_the_document(document: object) -> None:
    with pytest.raises(VerificationError) as refused:
        _policy(document)

    assert _WORD not in str(refused.value)


def test_everything_cannot_be_skipped() -> None:
    with pytest.raises(VerificationError, match="name the repositories that may be unsigned"):
        Policy(document=notary.document("skip", scopes=("*",)), certificates={})


@pytest.mark.parametrize("field", ["name", "registryScopes"])
def test_no_two_statements_share_a_name_or_a_scope(field: str) -> None:
    first, second = _document()["trustPolicies"][0], _document()["trustPolicies"][0]
    other = {"name": "other", "registryScopes": ["a.io/other"]}
    other[field] = first[field]

    with pytest.raises(VerificationError, match="stands in 2 statements"):
        _policy({"version": "1.0", "trustPolicies": [first, second | other]})


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b" " * 2_000_000])
def test_what_is_no_json_is_refused(content: bytes) -> None:
    with pytest.raises(VerificationError, match=r"trustpolicy\.json"):
        Policy(document=content, certificates=_CERTIFICATES)


def test_a_secret_without_a_document_is_refused() -> None:
    with pytest.raises(VerificationError, match=r"the secret has no 'trustpolicy\.json'"):
        Policy.from_secret({"ca.crt": _AUTHORITY.pem})


def test_a_secret_gives_document_and_certificates() -> None:
    secret = {"trustpolicy.json": notary.document(), "a.pem": _AUTHORITY.pem, "notes": b"-"}

    policy = Policy.from_secret(secret)

    assert list(policy.certificates) == ["a.pem"]
    assert [one.name for one in policy.stores["ca"]] == ["a.pem"]


def test_an_exact_scope_comes_before_all_others() -> None:
    exact = _document()["trustPolicies"][0]
    rest = exact | {"name": "rest", "registryScopes": ["*"]}
    policy = _policy({"version": "1.0", "trustPolicies": [rest, exact]})

    assert policy.applicable("registry.example.com/team/app")[0].name == "app"
    assert policy.applicable("registry.example.com/team/application")[0].name == "rest"


def test_a_repository_without_a_statement_is_refused() -> None:
    with pytest.raises(VerificationError, match=r"for 'registry\.example\.com/team'"):
        _policy(_document()).applicable("registry.example.com/team")


@pytest.mark.parametrize("scope", ["docker.io/library/app", "index.docker.io/library/app"])
@pytest.mark.parametrize("registry", ["docker.io", "index.docker.io"])
def test_docker_hub_may_be_called_by_either_name(scope: str, registry: str) -> None:
    policy = _policy(_document(registryScopes=[scope]))

    statement, name = policy.applicable(f"{registry}/library/app")

    assert name in statement.scopes


def test_certificates_are_in_every_store_unless_their_name_says_which() -> None:
    clock = Authority("Clock")

    plain = _policy(_document(), **{"a.crt": _AUTHORITY.pem, "b.pem": clock.pem})
    named = _policy(_document(), **{"a.crt": _AUTHORITY.pem, "tsa.clock.crt": clock.pem})

    assert {kind: len(held) for kind, held in plain.stores.items()} == {
        "ca": 2,
        "signingAuthority": 2,
        "tsa": 2,
    }
    assert [one.name for one in named.stores["ca"]] == ["a.crt"]
    assert [one.name for one in named.stores["tsa"]] == ["tsa.clock.crt"]


def test_a_bundle_of_certificates_counts_whole() -> None:
    bundle = _AUTHORITY.pem + Authority("Other").pem

    assert len(_policy(_document(), **{"bundle.pem": bundle}).stores["ca"]) == 2


def test_a_store_without_a_certificate_is_refused() -> None:
    with pytest.raises(VerificationError, match=r"add one as 'ca\.<name>\.crt'"):
        Policy(document=notary.document(), certificates={})


def test_a_store_of_timestamp_authorities_needs_a_root() -> None:
    document = notary.document(stores=("ca:example", "tsa:clock"))

    with pytest.raises(VerificationError, match="holds no root certificate for this store"):
        Policy(document=document, certificates={"ca.example.crt": _AUTHORITY.pem})


@pytest.mark.parametrize("content", [b"", b"x", b"-----BEGIN CERTIFICATE-----\nAA==\n"])
def test_what_is_no_certificate_is_refused_by_its_key(content: bytes) -> None:
    with pytest.raises(VerificationError, match=r"'broken\.crt' in the secret"):
        _policy(_document(), **{"broken.crt": content})


def test_a_signers_certificate_is_refused_by_its_key() -> None:
    leaf = _AUTHORITY.certify().chain_pem.encode().partition(_AUTHORITY.pem)[0]

    with pytest.raises(VerificationError, match=r"'leaf\.crt' in the secret is a signer's"):
        _policy(_document(), **{"leaf.crt": leaf})


def test_too_many_certificates_are_refused() -> None:
    with pytest.raises(VerificationError, match="more than 64 certificates"):
        _policy(_document(), **{"many.crt": _AUTHORITY.pem * 65})


def test_trust_changes_with_whatever_counts_and_with_nothing_else() -> None:
    first = _policy(_document())

    assert (
        first.trust
        == Policy(
            document=notary.document() + b"\n", certificates={"renamed.crt": _AUTHORITY.pem}
        ).trust
    )
    assert first.trust != _policy(_document(), **{"ca.crt": Authority().pem}).trust
    assert first.trust != _policy(_verification(level="audit")).trust
    assert (
        first.trust
        != _policy(_document(trustedIdentities=["x509.subject: C=US, ST=WA, O=E"])).trust
    )


def test_what_the_engine_gets_is_only_what_was_checked() -> None:
    text = notary.document().replace(b'"level"', b'"Level": "skip", "level"')

    policy = Policy(document=text, certificates=_CERTIFICATES)

    verification = policy.for_engine()["trustPolicies"][0]["signatureVerification"]
    assert verification == {"level": "strict", "override": {}, "verifyTimestamp": ""}
