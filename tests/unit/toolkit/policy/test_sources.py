"""Which sources may exist, and that no way around a policy is open."""

from typing import Any

import msgspec
import pytest

from crds.meta import VERIFIED
from crds.policy_source import SourcePolicy
from toolkit.objects import Json
from toolkit.policy import origins, sources

ISSUER = "https://token.actions.githubusercontent.com"
ISSUER_PATTERN = r"https://token\.actions\.githubusercontent\.com"
SUBJECT_PATTERN = r"https://github\.com/acme/.*"
KEY = "SHA256:" + "ab" * 32
SSH = "SHA256:" + "Zz09+/" * 7 + "A"
PGP = "0123456789ABCDEF" * 2 + "01234567"


def policy(*entries: Json, name: str = "tenants", **spec: Any) -> SourcePolicy:
    body = {"metadata": {"name": name}, "spec": {"sources": list(entries), **spec}}
    return msgspec.convert(body, SourcePolicy)


def obj(kind: str, **spec: Any) -> Json:
    return {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": kind,
        "metadata": {"name": "app", "namespace": "team"},
        "spec": spec,
    }


def git(url: str = "https://github.com/acme/app", **spec: Any) -> Json:
    return obj("GitRepository", url=url, **spec)


def oci(url: str = "oci://ghcr.io/acme/app", **spec: Any) -> Json:
    return obj("OCIRepository", url=url, **spec)


def found(source: Json, *policies: SourcePolicy) -> list[tuple[str, str]]:
    return [(each.field, each.why) for each in sources.judge(source, policies)]


def fields(source: Json, *policies: SourcePolicy) -> list[str]:
    return [field for field, _ in found(source, *policies)]


GIT: Json = {"kind": "GitRepository", "urls": ["https://github.com/acme/**"]}
OCI: Json = {"kind": "OCIRepository", "urls": ["oci://ghcr.io/acme/**"]}
SIGNED_GIT = GIT | {"verify": {"git": {"mode": "HEAD"}}}
IDENTITY: Json = {"issuer": ISSUER_PATTERN, "subject": SUBJECT_PATTERN}
KEYLESS = OCI | {"verify": {"cosign": {"identities": [IDENTITY]}}}
KEYED = OCI | {"verify": {"cosign": {"keys": [KEY]}}}
SECRET = {"name": "keys"}


def test_allowed_url_is_allowed() -> None:
    assert found(git(), policy(GIT)) == []


@pytest.mark.parametrize(
    "url", ["https://github.com/evil/app", "https://github.com/acme/../evil", "ssh://github.com/a"]
)
def test_other_url_is_refused_and_the_allowed_ones_are_named(url: str) -> None:
    ((field, why),) = found(git(url), policy(GIT))

    assert field == "spec.url"
    assert url in why or "allowed are https://github.com/acme/**" in why


@pytest.mark.parametrize(
    "url",
    [
        "https://bob:s3cr3t@github.com/acme/x?private_token=s3cr3t",
        "https://bob:s3cr3t@evil.example/x",
        "https://bob:x#s3cr3t@github.com/acme/x",
        "https://bob:x/s3cr3t@github.com/acme/x",
        "https://bob/s3cr3t@github.com/acme/x",
    ],
)
def test_secrets_in_a_url_are_not_told(url: str) -> None:
    (violation,) = sources.judge(git(url), [policy(GIT)])

    assert "s3cr3t" not in f"{violation} {violation!r}"


def test_another_url_that_cannot_be_compared_is_a_change_for_the_worse() -> None:
    before, after = (
        sources.judge(git(f"https://github.com/acme/{name}?x"), [policy(GIT)])
        for name in ("app", "evil")
    )

    assert [*sources.fresh(after, before)] == [*after]
    assert not [*sources.fresh(before, before)]


@pytest.mark.parametrize("kind", ["OCIRepository", "Bucket", "HelmRepository", "ExternalArtifact"])
def test_kind_that_a_policy_does_not_name_is_refused(kind: str) -> None:
    assert fields(obj(kind), policy(GIT)) == ["kind"]
    assert fields(obj(kind), policy(GIT, otherKinds="Allow")) == []


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"endpoint": "minio.acme.example", "bucketName": "apps"}, True),
        ({"endpoint": "https://minio.acme.example/", "bucketName": "apps"}, True),
        ({"endpoint": "minio.acme.example", "bucketName": "apps", "insecure": True}, False),
        ({"endpoint": "minio.acme.example", "bucketName": "other"}, False),
        ({"endpoint": "evil.example", "bucketName": "apps"}, False),
        ({"endpoint": "evil.example#", "bucketName": "apps"}, False),
        ({"endpoint": "minio.acme.example/x/..;", "bucketName": "apps"}, False),
        ({"endpoint": "minio.acme.example/..", "bucketName": "apps"}, False),
        ({"endpoint": "minio.acme.example", "bucketName": "apps/..;/other"}, False),
        # Google's API asks this server for the object v1/b/apps/o in the bucket "storage".
        ({"endpoint": "minio.acme.example", "bucketName": "apps", "provider": "gcp"}, False),
    ],
)
def test_bucket_is_compared_by_endpoint_and_name(spec: Json, *, allowed: bool) -> None:
    entry = {"kind": "Bucket", "urls": ["https://minio.acme.example/apps"]}

    assert fields(obj("Bucket", **spec), policy(entry)) == ([] if allowed else ["spec.endpoint"])


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("storage.googleapis.com", "https://storage.googleapis.com/apps"),
        ("https://STORAGE.googleapis.com:443", "https://storage.googleapis.com/apps"),
        ("gcs.acme.example:4443", "https://gcs.acme.example:4443/storage/v1/b/apps"),
        ("googleapis.com.evil.example", "https://googleapis.com.evil.example/storage/v1/b/apps"),
        (
            "evil.example/a.googleapis.com",
            "https://evil.example/a.googleapis.com/storage/v1/b/apps",
        ),
    ],
)
def test_bucket_behind_the_api_of_google_has_the_url_that_is_asked(endpoint: str, url: str) -> None:
    bucket = obj("Bucket", endpoint=endpoint, bucketName="apps", provider="gcp")

    assert found(bucket, policy({"kind": "Bucket", "urls": [url]})) == []


@pytest.mark.parametrize("escape", ["..;", "..;x=y", "%2e%2e;", "..%3b", "%252e%252e", "%u002e"])
def test_path_that_some_servers_resolve_is_refused(escape: str) -> None:
    ((field, why),) = found(git(f"https://github.com/acme/{escape}/evil/app"), policy(GIT))

    assert field == "spec.url"
    assert "cannot be compared" in why


def test_registry_without_tls_is_another_url() -> None:
    assert fields(oci(insecure=True), policy(OCI)) == ["spec.url"]
    allowing = OCI | {"urls": ["oci+http://ghcr.io/acme/**"]}
    assert fields(oci(insecure=True), policy(allowing)) == []


def test_proxy_of_ones_own_could_answer_for_any_url() -> None:
    source = git(proxySecretRef={"name": "proxy"})

    assert fields(source, policy(GIT)) == ["spec.proxySecretRef"]
    assert fields(source, policy(GIT | {"ownProxy": "Allow"})) == []


def test_all_policies_hold_and_one_entry_of_each_is_enough() -> None:
    elsewhere = GIT | {"urls": ["https://gitlab.com/**"]}

    assert fields(git(), policy(elsewhere, GIT), policy(GIT)) == []
    assert fields(git(), policy(GIT), policy(elsewhere, name="b")) == ["spec.url"]


def test_entries_do_not_lend_each_other_their_halves() -> None:
    anything_signed = {**SIGNED_GIT, "urls": ["https://**"]}
    elsewhere_unsigned = GIT | {"urls": ["https://gitlab.com/**"]}

    assert fields(git(), policy(anything_signed, elsewhere_unsigned)) == ["spec.verify"]


@pytest.mark.parametrize(
    ("demanded", "mode", "enough"),
    [
        ("HEAD", "HEAD", True),
        ("HEAD", "head", True),
        ("HEAD", "TagAndHEAD", True),
        ("HEAD", "Tag", False),
        ("Tag", "HEAD", False),
        ("Tag", "TagAndHEAD", True),
        ("TagAndHEAD", "HEAD", False),
        ("TagAndHEAD", "Tag", False),
    ],
)
def test_weaker_mode_is_refused(demanded: str, mode: str, *, enough: bool) -> None:
    entry = GIT | {"verify": {"git": {"mode": demanded}}}
    source = git(verify={"mode": mode, "secretRef": SECRET})

    assert fields(source, policy(entry)) == ([] if enough else ["spec.verify.mode"])


def test_source_without_verification_is_refused_where_it_is_required() -> None:
    ((field, why),) = found(git(), policy(SIGNED_GIT))

    assert field == "spec.verify"
    assert "a git signature (HEAD)" in why


def keyless(issuer: str, subject: str, **more: Any) -> Json:
    return oci(
        verify={
            "provider": "cosign",
            "matchOIDCIdentity": [{"issuer": issuer, "subject": subject}],
            **more,
        }
    )


@pytest.mark.parametrize(
    ("issuer", "subject", "enough"),
    [
        (f"^{ISSUER_PATTERN}$", f"^{SUBJECT_PATTERN}$", True),
        (f"^(?:{ISSUER_PATTERN})$", f"^(?:{SUBJECT_PATTERN})$", True),
        (f"^{ISSUER_PATTERN}$", r"^https://github\.com/acme/app/.*$", True),
        (f"^{ISSUER}$", f"^{SUBJECT_PATTERN}$", False),  # . is any character
        (f"^{ISSUER_PATTERN}$", r"^https://github.com/acme/app$", False),
        (f"^{ISSUER_PATTERN}$", r"^https://github\.com/acme/app/a$", True),
        (ISSUER_PATTERN, f"^{SUBJECT_PATTERN}$", False),
        (f"^{ISSUER_PATTERN}$", SUBJECT_PATTERN, False),
        (f"^{ISSUER_PATTERN}$", f"^{SUBJECT_PATTERN}|.*$", False),
        (f"^{ISSUER_PATTERN}$", f"^(?i){SUBJECT_PATTERN}$", False),
        (f"^{ISSUER_PATTERN}$", r"^https://github\.com/.*$", False),
        (f"^{ISSUER_PATTERN}$", r"^https://github\.com/acme/*.*$", False),
        (f"^{ISSUER_PATTERN}$", r"^.*$", False),
        ("^.*$", f"^{SUBJECT_PATTERN}$", False),
        (f"^{ISSUER_PATTERN}\\$", f"^{SUBJECT_PATTERN}$", False),
    ],
)
def test_wider_identity_is_refused(issuer: str, subject: str, *, enough: bool) -> None:
    expected = [] if enough else ["spec.verify.matchOIDCIdentity[0]"]

    assert fields(keyless(issuer, subject), policy(KEYLESS)) == expected


@pytest.mark.parametrize(
    ("verify", "field"),
    [
        ({"provider": "cosign"}, "spec.verify.matchOIDCIdentity"),
        ({"provider": "cosign", "secretRef": SECRET}, "spec.verify.secretRef"),
        ({"provider": "notation", "secretRef": SECRET}, "spec.verify.provider"),
        (
            {"trustedRootSecretRef": SECRET, "matchOIDCIdentity": [IDENTITY]},
            "spec.verify.trustedRootSecretRef",
        ),
    ],
)
def test_another_kind_of_signature_is_refused(verify: Json, field: str) -> None:
    assert fields(oci(verify=verify), policy(KEYLESS)) == [field]


def test_identity_does_not_stand_in_for_a_key() -> None:
    source = keyless(f"^{ISSUER_PATTERN}$", f"^{SUBJECT_PATTERN}$")

    assert fields(source, policy(KEYED)) == ["spec.verify.secretRef"]
    assert fields(oci(verify={"secretRef": SECRET}), policy(KEYED)) == []


def test_own_trust_root_can_be_allowed() -> None:
    entry = OCI | {"verify": {"cosign": {"identities": [IDENTITY], "ownTrustedRoot": "Allow"}}}
    source = keyless(f"^{ISSUER_PATTERN}$", f"^{SUBJECT_PATTERN}$", trustedRootSecretRef=SECRET)

    assert fields(source, policy(entry)) == []


class Counted(dict[str, str]):
    """An identity that counts how often it is read."""

    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        type(self).reads += 1
        return super().get(key, default)


def test_thousands_of_identities_are_refused_and_none_is_compared() -> None:
    identity = {"issuer": f"^{ISSUER_PATTERN}$", "subject": f"^{SUBJECT_PATTERN}$"}
    source = keyless(**identity)

    def counted(number: int) -> tuple[list[tuple[str, str]], int]:
        Counted.reads = 0
        source["spec"]["verify"]["matchOIDCIdentity"] = [Counted(identity) for _ in range(number)]
        return found(source, policy(KEYLESS)), Counted.reads

    ((field, why),), reads = counted(18_000)
    assert field == "spec.verify.matchOIDCIdentity"
    assert "more than 256 identities are not compared" in why
    assert reads == 0
    assert counted(256) == ([], 512)


def test_pattern_of_endless_length_is_not_compared() -> None:
    subject = rf"^https://github\.com/acme/{'a' * 4096}$"

    ((field, _),) = found(keyless(f"^{ISSUER_PATTERN}$", subject), policy(KEYLESS))

    assert field == "spec.verify.matchOIDCIdentity[0]"


def facts(method: str, **more: str) -> dict[str, str]:
    named = {"method": method, **more}
    return {VERIFIED: "yes"} | {f"verify.penstock.dev/{k}": v for k, v in named.items()}


def judged(
    source: Json, metadata: dict[str, str], *policies: SourcePolicy
) -> tuple[sources.Violation, ...]:
    """Judge the artifact that the source controller stored while the source was as it is here."""
    record = {origins.RECORD: origins.record(origins.own(source), ())}
    return sources.judge_artifact(source["kind"], {**metadata, **record}, policies)


PROVED = git(verify={"mode": "HEAD", "secretRef": SECRET})
OF_KEYS = GIT | {"verify": {"git": {"keys": [SSH, PGP]}}}


@pytest.mark.parametrize(
    ("fingerprint", "allowed"),
    [
        (SSH, True),
        (PGP, True),
        (PGP.lower(), True),
        (f"{SSH}, {PGP}", True),
        (SSH.lower(), False),
        ("SHA256:" + "x" * 43, False),
        (f"{SSH}, SHA256:{'x' * 43}", False),
        ("", False),
    ],
)
def test_git_signer_must_be_one_of_the_keys(fingerprint: str, *, allowed: bool) -> None:
    metadata = facts("git", identity="a@b", fingerprint=fingerprint)

    violations = judged(PROVED, metadata, policy(OF_KEYS))

    assert (not violations) is allowed


def test_artifact_that_nobody_vouches_for_is_refused_where_a_signature_is_required() -> None:
    metadata = {
        key: value for key, value in facts("git", fingerprint=SSH).items() if key != VERIFIED
    }

    (violation,) = judged(PROVED, metadata, policy(OF_KEYS))

    assert "no trusted signer signed" in violation.why


@pytest.mark.parametrize(
    ("issuer", "identity", "allowed"),
    [
        (ISSUER, "https://github.com/acme/app/.github/workflows/x.yaml@refs/heads/main", True),
        (ISSUER, "https://github.com/acme-evil/app", False),
        (ISSUER, "https://evil.example/?https://github.com/acme/app", False),
        ("https://evil.example/" + ISSUER, "https://github.com/acme/app", False),
    ],
)
def test_keyless_signer_must_match_whole(issuer: str, identity: str, *, allowed: bool) -> None:
    source = keyless(f"^{ISSUER_PATTERN}$", f"^{SUBJECT_PATTERN}$")
    metadata = facts("cosign-keyless", issuer=issuer, identity=identity, fingerprint="SHA256:x")

    violations = judged(source, metadata, policy(KEYLESS))

    assert (not violations) is allowed


def test_keyed_signer_must_be_one_of_the_keys() -> None:
    source = oci(verify={"secretRef": SECRET})

    for fingerprint, expected in ((KEY, 0), (KEY.replace("ab", "cd"), 1)):
        metadata = facts("cosign-key", identity="cosign.pub", fingerprint=fingerprint)
        assert len(judged(source, metadata, policy(KEYED))) == expected


@pytest.mark.parametrize(
    ("identity", "allowed"),
    [
        ("CN=release,O=Acme,C=US", True),
        ("C=US, O=Acme, CN=release, L=Here", True),
        ("CN=release,O=Acme Evil,C=US", False),
        (r"CN=release\,O=Acme,C=US", False),
        ("CN=release", False),
    ],
)
def test_notation_signer_must_have_all_attributes(identity: str, *, allowed: bool) -> None:
    notation = {"identities": ["C=US, O=Acme"], "ownAuthorities": "Allow"}
    entry = OCI | {"verify": {"notation": notation}}
    source = oci(verify={"provider": "notation", "secretRef": SECRET})
    metadata = facts("notation", identity=identity, fingerprint=KEY)

    violations = judged(source, metadata, policy(entry))

    assert (not violations) is allowed


@pytest.mark.parametrize(
    ("more", "allowed"),
    [
        ({}, False),
        ({"ownAuthorities": "Deny"}, False),
        ({"ownAuthorities": "Allow"}, True),
        ({"certificates": [KEY]}, True),
        ({"certificates": [KEY.replace("ab", "cd")], "ownAuthorities": "Allow"}, False),
    ],
)
def test_names_in_certificates_prove_nothing_alone(more: Json, *, allowed: bool) -> None:
    entry = OCI | {"verify": {"notation": {"identities": ["O=Acme"], **more}}}
    source = oci(verify={"provider": "notation", "secretRef": SECRET})
    metadata = facts("notation", identity="CN=release,O=Acme", fingerprint=KEY)

    found = judged(source, metadata, policy(entry))

    assert (not found) is allowed
    if "certificates" not in more and not allowed:
        assert all("ownAuthorities" in str(each) for each in found)
        assert sources.judge(source, [policy(entry)])


def test_notation_certificate_must_be_one_of_those_required() -> None:
    entry = OCI | {"verify": {"notation": {"certificates": [KEY]}}}
    source = oci(verify={"provider": "notation", "secretRef": SECRET})

    for fingerprint, expected in ((KEY, 0), (KEY.replace("ab", "cd"), 1)):
        metadata = facts("notation", identity="CN=release", fingerprint=fingerprint)
        assert len(judged(source, metadata, policy(entry))) == expected


def test_what_was_wrong_before_does_not_block_a_change() -> None:
    rules = [policy(GIT)]
    before = sources.judge(git("https://gitlab.com/a"), rules)

    assert list(sources.fresh(before, before)) == []
    worse = sources.judge(git("https://gitlab.com/b"), rules)
    assert list(sources.fresh(worse, before)) == list(worse)


def whys(source: Json, *policies: SourcePolicy, **proved: str) -> str:
    found = judged(source, facts(**proved) if proved else {}, *policies)  # type: ignore[arg-type]
    return "; ".join(each.why for each in found)


BUCKET = {"kind": "Bucket", "urls": ["https://minio.acme.example/apps"]}
BY_TAG = GIT | {"verify": {"git": {"mode": "Tag"}}}
ANY_KEY = OCI | {"verify": {"cosign": {}}}
OWN_ROOT = keyless(f"^{ISSUER_PATTERN}$", f"^{SUBJECT_PATTERN}$", trustedRootSecretRef=SECRET)
BY_ACME = {"method": "cosign-keyless", "issuer": ISSUER, "identity": "https://github.com/acme/a"}


@pytest.mark.parametrize(
    ("fetched_as", "entry", "proved", "why"),
    [
        (git(), GIT, {}, ""),
        (git("https://evil.example/app"), GIT, {}, "fetched from 'https://evil.example/app'"),
        (git("https://bob:x/s3cr3t@github.com/acme/x"), GIT, {}, "cannot be compared"),
        (git(proxySecretRef=SECRET), GIT, {}, "through the proxy in spec.proxySecretRef"),
        (
            obj("Bucket", endpoint="evil.example", bucketName="apps"),
            BUCKET,
            {},
            "fetched from 'https://evil.example/apps'",
        ),
        (oci("oci://evil.example/acme/app"), OCI, {}, "fetched from 'oci://evil.example/acme/app'"),
        (oci(insecure=True), OCI, {}, "fetched from 'oci+http://ghcr.io/acme/app'"),
        (PROVED, BY_TAG, {"method": "git", "fingerprint": SSH}, "(HEAD); required is"),
        (OWN_ROOT, KEYLESS, BY_ACME, "by a trust root of the source's own"),
        (oci(verify={"provider": "cosign"}), ANY_KEY, BY_ACME, "required is a cosign signature"),
        (oci(verify={"provider": "cosign"}), KEYLESS, BY_ACME, ""),
        (git(), SIGNED_GIT, {}, "no trusted signer signed"),
    ],
)
def test_an_artifact_is_judged_by_what_it_was_fetched_from(
    fetched_as: Json, entry: Json, proved: dict[str, str], why: str
) -> None:
    said = whys(fetched_as, policy(entry), **proved)

    assert why in said
    assert bool(said) is bool(why)


def test_an_artifact_without_a_record_is_refused_with_the_remedy() -> None:
    (violation,) = sources.judge_artifact("GitRepository", {}, [policy(GIT)])

    assert "resume the source if it is suspended, and reconcile it" in violation.why


@pytest.mark.parametrize("text", ["", "[]", "[1]", "{}", "nonsense", '[{"kind":"GitRepository"}]'])
def test_a_record_that_cannot_be_read_is_none(text: str) -> None:
    assert sources.judge_artifact("GitRepository", {origins.RECORD: text}, [policy(GIT)])


@pytest.mark.parametrize("escape", ["..;", "%252e%252e", ""])
def test_a_recorded_address_that_some_servers_resolve_is_refused(escape: str) -> None:
    url = f"https://github.com/acme/{escape}/evil/app"
    record = origins.record(origins.Origin(kind="GitRepository", name="app", url=url), ())

    (violation,) = sources.judge_artifact("GitRepository", {origins.RECORD: record}, [policy(GIT)])

    assert "it was fetched from" in violation.why


def test_nothing_is_asked_of_what_third_parties_made() -> None:
    entry = {"kind": "ExternalArtifact"}

    assert sources.judge_artifact("ExternalArtifact", {}, [policy(entry)]) == ()


def test_everything_that_an_artifact_was_made_from_must_be_allowed() -> None:
    charts = origins.own(obj("HelmRepository", url="https://evil.example/charts"))
    record = origins.record(origins.own(obj("HelmChart", chart="x")), [charts])
    entries = (
        {"kind": "HelmChart"},
        {"kind": "HelmRepository", "urls": ["https://charts.acme/**"]},
    )

    (violation,) = sources.judge_artifact("HelmChart", {origins.RECORD: record}, [policy(*entries)])

    assert "'https://evil.example/charts'" in violation.why


def test_signers_of_parts_are_judged_as_well() -> None:
    part = origins.own(git(verify={"mode": "HEAD", "secretRef": SECRET}))
    stored = {origins.RECORD: origins.record(part, ()), **facts("git", fingerprint=SSH)}
    parts = origins.read(stored)
    metadata = {
        origins.RECORD: origins.record(part, parts),
        **facts("git", fingerprint=PGP),
    }

    of_both, of_one = (GIT | {"verify": {"git": {"keys": keys}}} for keys in ([SSH, PGP], [PGP]))

    assert not sources.judge_artifact("GitRepository", metadata, [policy(of_both)])
    assert sources.judge_artifact("GitRepository", metadata, [policy(of_one)])


def test_too_many_parts_are_recorded_as_unknown() -> None:
    parts = [origins.own(git(f"https://github.com/acme/{n}/{'x' * 500}")) for n in range(64)]
    record = origins.record(origins.own(git()), parts)

    assert len(record) < 2000
    assert sources.judge_artifact("GitRepository", {origins.RECORD: record}, [policy(GIT)])


def test_a_record_holds_no_password() -> None:
    for url in ("https://bob:s3cr3t@github.com/acme/x", "https://github.com/acme/x?token=s3cr3t"):
        assert "s3cr3t" not in origins.record(origins.own(git(url)), ())
