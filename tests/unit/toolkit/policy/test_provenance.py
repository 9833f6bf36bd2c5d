"""What a ProvenancePolicy is about, what satisfies it, and what those are told that do not."""

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import crds
from crds.kind import Kind
from crds.meta import VERIFIED, Artifact
from crds.policy_provenance import ProvenancePolicy
from toolkit.objects import GroupVersionKind, Json, ObjectKey, ObjectRef
from toolkit.policy import origins, provenance
from toolkit.policy.attempts import Attempt
from toolkit.policy.claims import Claims, Part, Standing

LABELLED = {provenance.LABEL: "production", "team": "shop"}
APPLIER = ObjectRef(
    GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"), "shop", "web"
)
SIGNED = "verified signature of commit 'aaa' with key 'K'"
CLAIMS = Claims(
    applier=APPLIER,
    source="GitRepository/flux-system/fleet",
    revision="main@sha1:aaa",
    digest="sha256:1",
    verified=SIGNED,
)
OWNER = {
    "kustomize.toolkit.fluxcd.io/name": "web",
    "kustomize.toolkit.fluxcd.io/namespace": "shop",
}
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def policy(name: str = "production", **spec: Any) -> ProvenancePolicy:
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ProvenancePolicy)


def part(url: str = "https://git.example/fleet.git", path: str = "", **changes: Any) -> Part:
    gvk = GroupVersionKind("source.toolkit.fluxcd.io", "v1", changes.get("kind", "GitRepository"))
    artifact = Artifact(
        digest="sha256:1",
        last_update_time="2026-01-01T00:00:00Z",
        path="p",
        revision="main@sha1:aaa",
        url="http://x",
        metadata={VERIFIED: SIGNED, **fetched_from(url, *changes.get("included", ()))},
    )
    ref = ObjectRef(gvk, "flux-system", changes.get("name", "fleet"))
    return Part(path=path, source=ref, artifacts=(artifact,))


def fetched_from(*urls: str) -> dict[str, str]:
    """Return the record of an artifact of the first, which includes the others."""
    first, *others = (
        origins.own({"kind": "GitRepository", "metadata": {"name": "x"}, "spec": {"url": url}})
        for url in urls
    )
    return {origins.RECORD: origins.record(first, others)}


STANDING = Standing(
    applier=APPLIER, account=ObjectKey("shop", "deployer"), directory="./apps/web", parts=(part(),)
)


def attempt(
    operation: Any = "UPDATE",
    *,
    group: str | None = "apps",
    resource: str = "deployments",
    subresource: str = "",
    user: str = "alice",
    name: str = "web",
    labels: Mapping[str, str] | None = None,
) -> Attempt:
    old: Json = {"metadata": {"name": name, "namespace": "shop", "labels": labels or {}}}
    return Attempt(
        operation=operation,
        group=group,
        resource=resource,
        subresource=subresource,
        ref=ObjectRef(GroupVersionKind("apps", "v1", "Deployment"), "shop", name),
        user=user,
        old=None if operation == "CREATE" else old,
    )


def names(policies: tuple[ProvenancePolicy, ...]) -> list[str]:
    return [each.metadata.name for each in policies]


def test_a_policy_holds_only_where_the_label_is() -> None:
    assert names(provenance.holding([policy()], LABELLED)) == ["production"]
    assert provenance.holding([policy()], {"team": "shop"}) == ()


def test_a_selector_chooses_among_labelled_namespaces() -> None:
    mine = policy("b", namespaceSelector={"matchLabels": {"team": "shop"}})
    others = policy("a", namespaceSelector={"matchLabels": {"team": "ads"}})
    every = policy("0", namespaceSelector={})

    assert names(provenance.holding([mine, others, every], LABELLED)) == ["0", "b"]


@pytest.mark.parametrize(
    ("group", "resource"),
    [
        ("apps", "deployments"),
        ("apps", "replicasets"),
        ("", "pods"),
        ("", "configmaps"),
        ("", "secrets"),
        ("batch", "cronjobs"),
        ("autoscaling", "horizontalpodautoscalers"),
        ("networking.k8s.io", "networkpolicies"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("kustomize.toolkit.fluxcd.io", "kustomizations"),
        ("source.toolkit.fluxcd.io", "gitrepositories"),
        (None, "deployments"),
    ],
)
def test_a_policy_is_about_what_people_write(group: str | None, resource: str) -> None:
    assert provenance.selects(policy(), group, resource)


@pytest.mark.parametrize(
    ("group", "resource"),
    [
        ("", "persistentvolumeclaims"),
        ("policy.penstock.dev", "sourcepolicies"),
        ("example.com", "deployments"),
        ("cert-manager.io", "certificates"),
    ],
)
def test_a_policy_is_not_about_the_rest_by_default(group: str, resource: str) -> None:
    assert not provenance.selects(policy(), group, resource)


CLUSTER_WIDE = {
    "SourcePolicy": "it lies in no namespace; its writers are those of ProvenancePolicies",
    "ProvenancePolicy": "it lies in no namespace",
    "ImageVerificationPolicy": "it lies in no namespace",
}
"""The kinds that a policy does not cover by default, and why."""


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.kind)
def test_a_policy_is_about_all_of_our_kinds(kind: Kind[Any]) -> None:
    covered = provenance.selects(policy(), kind.group, kind.plural)

    assert covered != (kind.kind in CLUSTER_WIDE)
    assert kind.namespaced == covered


def test_a_policy_is_about_what_it_names() -> None:
    own = policy(resources=[{"apiGroups": ["*"], "resources": ["secrets", "widgets"]}])
    every = policy(resources=[{"apiGroups": ["example.com"], "resources": ["*"]}])

    assert provenance.selects(own, "", "secrets")
    assert provenance.selects(own, "example.com", "widgets")
    assert not provenance.selects(own, "apps", "deployments")
    assert provenance.selects(every, "example.com", "anything")


def test_scaling_may_be_allowed() -> None:
    scaling = attempt(group=None, subresource="scale")
    allowing = policy(scale="Allow")

    assert provenance.about([allowing], scaling) == ()
    assert names(provenance.about([policy()], scaling)) == ["production"]
    assert names(provenance.about([allowing], attempt())) == ["production"]


def test_operators_are_not_bound_for_their_resources() -> None:
    one = policy(
        operators=[
            {
                "namespace": "cert-manager",
                "serviceAccountName": "cert-manager",
                "resources": [{"apiGroups": [""], "resources": ["secrets"]}],
            }
        ]
    )
    user = "system:serviceaccount:cert-manager:cert-manager"

    assert provenance.about([one], attempt(group="", resource="secrets", user=user)) == ()
    assert provenance.about([one], attempt(group="", resource="configmaps", user=user))
    assert provenance.about([one], attempt(group="", resource="secrets"))


@pytest.mark.parametrize(
    "allowed",
    [
        [],
        [{}],
        [{"source": {"kind": "GitRepository", "namespace": "flux-system", "name": "fleet"}}],
        [{"source": {"urls": ["https://git.example/*"]}}],
        [{"applier": {"namespace": "shop"}}],
        [{"applier": {"kind": "Kustomization", "namespace": "shop", "name": "web"}}],
        [{"revision": "main@sha1:[0-9a-f]+"}],
        [{"verifiedBy": ".+"}],
        [{"verifiedBy": ".*with key 'K'", "revision": "main@.*"}],
        [{"source": {"name": "other"}}, {"source": {"name": "fleet"}}],
    ],
)
def test_an_origin_that_fits_satisfies(allowed: list[Json]) -> None:
    assert provenance.judge([policy(origins=allowed)], attempt(), CLAIMS, STANDING) == ()


@pytest.mark.parametrize(
    ("origin", "why"),
    [
        ({"source": {"kind": "Bucket"}}, "GitRepository/flux-system/fleet is not a source that is"),
        ({"source": {"namespace": "shop"}}, "is not a source that is admitted"),
        ({"source": {"name": "fleets"}}, "is not a source that is admitted"),
        ({"source": {"urls": ["https://git.example"]}}, "which is not admitted"),
        (
            {"source": {"urls": ["https://other.example/**"]}},
            (
                "GitRepository/flux-system/fleet contains what was fetched from "
                "'https://git.example/fleet.git', which is not admitted"
            ),
        ),
        ({"applier": {"namespace": "ads"}}, "Kustomization/shop/web may not apply here"),
        ({"applier": {"name": "api"}}, "Kustomization/shop/web may not apply here"),
        ({"revision": "main@sha1"}, "revision 'main@sha1:aaa' does not match 'main@sha1'"),
        ({"revision": "aaa"}, "does not match 'aaa'"),
        ({"revision": "main@(sha1"}, "does not match 'main@(sha1'"),
        ({"verifiedBy": "key 'K'"}, "does not match 'key 'K''"),
    ],
)
def test_an_origin_must_fit_whole(origin: Json, why: str) -> None:
    found = provenance.judge([policy(origins=[origin])], attempt(), CLAIMS, STANDING)

    assert [why in each.why for each in found] == [True]


def test_what_nobody_signed_is_not_signed_by_anybody() -> None:
    unsigned = Claims(
        applier=APPLIER, source=CLAIMS.source, revision=CLAIMS.revision, digest=CLAIMS.digest
    )
    wanted = [policy(origins=[{"verifiedBy": each}]) for each in (".+", ".*", ".*|")]

    found = provenance.judge(wanted, attempt(), unsigned, STANDING)

    assert [each.why for each in found] == [
        "no signature of GitRepository/flux-system/fleet was verified" for _ in wanted
    ]


def test_the_closest_origin_is_told() -> None:
    far = {"applier": {"name": "x"}, "revision": "v.*", "source": {"name": "y"}}
    near = {"applier": {"name": "web"}, "revision": "v.*", "source": {"name": "fleet"}}

    (found,) = provenance.judge([policy(origins=[far, near])], attempt(), CLAIMS, STANDING)

    assert found.why == "revision 'main@sha1:aaa' does not match 'v.*'"


BY_K = {"verifiedBy": ".*with key 'K'"}


def beside(**metadata: str) -> tuple[Part, Part]:
    """Return the fleet, and another source of the same build with these metadata."""
    other = part("https://git.example/x", "vendor/x", name="x")
    artifact = replace(
        other.artifacts[0], revision="dev@sha1:bbb", metadata=fetched_from("https://x") | metadata
    )
    return part(), dataclasses.replace(other, artifacts=(artifact,))


BOTH = dataclasses.replace(
    CLAIMS,
    revision="main@sha1:aaa, vendor/x=dev@sha1:bbb",
    digest="sha256:1, vendor/x=sha256:1",
)


def test_every_source_of_a_build_is_signed_by_who_may() -> None:
    theirs = "verified signature of commit 'bbb' with key 'T'"
    ours = "verified signature of commit 'bbb' with key 'K'"
    nobodys = dataclasses.replace(BOTH, verified="")

    assert not foreign_to(BY_K, *beside(**{VERIFIED: ours}), claims=BOTH)
    assert foreign_to(BY_K, *beside(**{VERIFIED: theirs}), claims=BOTH) == (
        f"'{theirs}' does not match '.*with key 'K'' (GitRepository/flux-system/x)"
    )
    for claims in (BOTH, nobodys):
        assert foreign_to(BY_K, *beside(), claims=claims) == (
            "no signature of GitRepository/flux-system/x was verified"
        )


def test_every_source_of_a_build_has_a_revision_that_is_admitted() -> None:
    parts = beside(**{VERIFIED: SIGNED})

    assert not foreign_to({"revision": "(main|dev)@sha1:.*"}, *parts, claims=BOTH)
    assert foreign_to({"revision": "main@.*"}, *parts, claims=BOTH) == (
        "revision 'dev@sha1:bbb' of GitRepository/flux-system/x does not match 'main@.*'"
    )
    assert foreign_to({"revision": "dev@.*"}, *parts, claims=BOTH) == (
        "revision 'main@sha1:aaa' of GitRepository/flux-system/fleet does not match 'dev@.*'"
    )


def test_what_a_repository_includes_is_signed_by_who_may() -> None:
    def including(**facts: str) -> Part:
        own, base = (origins.Origin(kind="GitRepository", name=name) for name in ("fleet", "base"))
        record = origins.record(own, [replace(base, facts=facts)])
        artifact = replace(part().artifacts[0], metadata={VERIFIED: SIGNED, origins.RECORD: record})
        return dataclasses.replace(part(), artifacts=(artifact,))

    assert not foreign_to(BY_K, including(**{VERIFIED: SIGNED}))
    assert "key 'T'' does not match" in foreign_to(BY_K, including(**{VERIFIED: "with key 'T'"}))
    assert foreign_to(BY_K, including()) == (
        "no signature of 'base', which GitRepository/flux-system/fleet includes, was verified"
    )


def test_a_signature_of_content_without_a_record_counts_for_nothing() -> None:
    silent = replace(part().artifacts[0], metadata={VERIFIED: SIGNED})

    assert "stored without a record" in foreign_to(
        BY_K, dataclasses.replace(part(), artifacts=(silent,))
    )


def test_a_build_from_nothing_satisfies_no_origin() -> None:
    assert foreign_to({"revision": ".*"}) == "Kustomization/shop/web is built from no source"


def test_every_part_of_a_build_must_be_admitted() -> None:
    foreign = part("https://elsewhere.example/x", "vendor/x", name="x")

    assert foreign_to(FROM_GIT, *STANDING.parts, foreign) == (
        "GitRepository/flux-system/x contains what was fetched from 'https://elsewhere.example/x', "
        "which is not admitted"
    )


FROM_GIT = {"source": {"urls": ["https://git.example/**"]}}


def foreign_to(origin: Json, *parts: Part, claims: Claims = CLAIMS) -> str:
    """Return why a policy does not admit what was built from these parts; empty if it does."""
    standing = Standing(applier=APPLIER, account=STANDING.account, parts=parts)
    found = provenance.judge([policy(origins=[origin])], attempt(), claims, standing)
    return "; ".join(each.why for each in found)


def test_what_a_repository_includes_must_be_admitted_too() -> None:
    own = "https://git.example/fleet.git"

    assert not foreign_to(FROM_GIT, part(own, included=["https://git.example/base"]))
    assert "'https://elsewhere.example/base'" in foreign_to(
        FROM_GIT, part(own, included=["https://elsewhere.example/base"])
    )


@pytest.mark.parametrize("escape", ["..;", "%252e%252e", ""])
def test_a_recorded_address_that_some_servers_resolve_is_not_admitted(escape: str) -> None:
    deep = {"source": {"urls": ["https://git.example/fleet/**"]}}
    url = f"https://git.example/fleet/{escape}/evil"
    origin = origins.Origin(kind="GitRepository", name="x", url=url)
    before = part().artifacts[0]
    metadata = {**before.metadata, origins.RECORD: origins.record(origin, ())}
    escaped = dataclasses.replace(part(), artifacts=(replace(before, metadata=metadata),))

    assert not foreign_to(deep, part("https://git.example/fleet/app"))
    assert "which is not admitted" in foreign_to(deep, escaped)


def test_an_artifact_that_tells_no_origin_satisfies_no_url() -> None:
    silent = replace(part().artifacts[0], metadata={VERIFIED: SIGNED})
    unknown = dataclasses.replace(part(), artifacts=(silent,))

    assert "stored without a record of where it came from" in foreign_to(FROM_GIT, unknown)
    assert not foreign_to({"source": {"name": "fleet"}}, unknown)


def made_with(spec: Json, *, kind: str = "GitRepository", included: Json | None = None) -> Part:
    """Return the source with this spec, in whose artifact that of another may be."""
    own, *others = (
        origins.own({"kind": kind, "metadata": {"name": "x"}, "spec": each})
        for each in (spec, *([included] if included else ()))
    )
    record = {origins.RECORD: origins.record(own, others)}
    made = part(kind=kind)
    artifact = replace(made.artifacts[0], metadata={VERIFIED: SIGNED, **record})
    return dataclasses.replace(made, artifacts=(artifact,))


def test_a_proxy_of_the_source_answers_for_no_address() -> None:
    direct = {"url": "https://git.example/fleet.git"}
    proxied = {**direct, "proxySecretRef": {"name": "mine"}}
    allowing = {"source": {**FROM_GIT["source"], "ownProxy": "Allow"}}

    assert "through the proxy in spec.proxySecretRef" in foreign_to(FROM_GIT, made_with(proxied))
    assert "through the proxy" in foreign_to(FROM_GIT, made_with(direct, included=proxied))
    assert not foreign_to(allowing, made_with(proxied))
    assert not foreign_to({"source": {"name": "fleet"}}, made_with(proxied))


def test_a_trust_root_of_the_source_proves_no_signer() -> None:
    claims = dataclasses.replace(CLAIMS, source="OCIRepository/flux-system/fleet")
    spec: Json = {"url": "oci://git.example/fleet", "verify": {"provider": "cosign"}}
    own = {**spec, "verify": {**spec["verify"], "trustedRootSecretRef": {"name": "mine"}}}
    signed = {"verifiedBy": ".*with key 'K'"}
    kind = "OCIRepository"

    assert not foreign_to(signed, made_with(spec, kind=kind), claims=claims)
    assert "spec.verify.trustedRootSecretRef" in foreign_to(
        signed, made_with(own, kind=kind), claims=claims
    )
    allowing = {**signed, "ownTrustedRoot": "Allow"}
    assert not foreign_to(allowing, made_with(own, kind=kind), claims=claims)


def of_a_chart(*repositories: str) -> Part:
    """Return the HelmChart of charts from these addresses; unknown ones have none."""
    chart = {"kind": "HelmChart", "metadata": {"name": "fleet"}, "spec": {"chart": "shop"}}
    sources = [
        origins.own({"kind": "HelmRepository", "metadata": {"name": "x"}, "spec": {"url": url}})
        for url in repositories
    ]
    record = {origins.RECORD: origins.record(origins.own(chart), sources)}
    made = part(kind="HelmChart")
    artifact = replace(made.artifacts[0], metadata={VERIFIED: SIGNED, **record})
    return dataclasses.replace(made, artifacts=(artifact,))


def test_the_address_of_a_chart_is_that_of_its_repository() -> None:
    claims = dataclasses.replace(CLAIMS, source="HelmChart/flux-system/fleet")
    wanted = {"source": {"kind": "HelmChart", "urls": ["https://charts.example/**"]}}
    good, bad = "https://charts.example/stable", "https://evil.example/stable"

    assert not foreign_to(wanted, of_a_chart(good), claims=claims)
    assert "'https://evil.example/stable'" in foreign_to(wanted, of_a_chart(bad), claims=claims)
    assert "'https://evil.example/stable'" in foreign_to(
        wanted, of_a_chart(good, bad), claims=claims
    )
    assert "an address that is not known" in foreign_to(
        wanted, of_a_chart(good, "x y"), claims=claims
    )
    assert "stored without a record" in foreign_to(wanted, of_a_chart(), claims=claims)


def test_what_third_parties_say_of_an_origin_is_not_believed() -> None:
    claims = dataclasses.replace(CLAIMS, source="ExternalArtifact/flux-system/fleet", verified="")

    said = foreign_to(FROM_GIT, part(kind="ExternalArtifact"), claims=claims)

    assert said == "ExternalArtifact/flux-system/fleet is not a source that is admitted"


def test_the_artifact_that_is_claimed_is_judged_and_not_its_neighbour() -> None:
    evil, good = part("https://evil.example/x"), part()
    other = replace(evil.artifacts[0], digest="sha256:2")
    claims = dataclasses.replace(CLAIMS, digest="sha256:2")

    both = dataclasses.replace(good, artifacts=(*good.artifacts, other))

    assert not foreign_to(FROM_GIT, both)
    assert foreign_to(FROM_GIT, both, claims=claims)


def test_same_content_counts_wherever_else_it_was_fetched() -> None:
    evil, good = part("https://evil.example/x"), part()

    both = dataclasses.replace(good, artifacts=(*evil.artifacts, *good.artifacts))

    assert not foreign_to(FROM_GIT, both)


def test_all_policies_must_be_satisfied() -> None:
    strict = policy("strict", origins=[{"applier": {"name": "api"}}], mode="Warn")

    found = provenance.judge([policy(), strict], attempt(), CLAIMS, STANDING)

    assert [each.policy for each in found] == ["strict"]
    assert provenance.enforced(found) == ()


def test_an_applier_may_take_away_what_it_brought() -> None:
    strict = policy(origins=[{"source": {"name": "other"}}])
    ending = Claims(applier=APPLIER)

    own, foreign = attempt("DELETE", labels=OWNER), attempt("DELETE")

    assert provenance.judge([strict], own, ending, STANDING) == ()
    assert provenance.judge([policy()], own, CLAIMS, STANDING) == ()
    assert provenance.judge([strict], foreign, ending, STANDING)
    assert provenance.judge([strict], attempt("UPDATE", labels=OWNER), ending, STANDING)


def test_a_revision_that_may_not_apply_may_not_delete() -> None:
    strict = policy(origins=[{"source": {"name": "other"}}])

    (found,) = provenance.judge([strict], attempt("DELETE", labels=OWNER), CLAIMS, STANDING)

    assert found.why == "GitRepository/flux-system/fleet is not a source that is admitted"


def test_a_refusal_says_what_to_change_instead() -> None:
    found = provenance.unproven([policy(hint="Ask in #platform.")], "only what is committed passes")
    home = provenance.home(STANDING)

    assert provenance.refusal(attempt(), found, home) == (
        "Deployment/shop/web may not be changed by 'alice': only what is committed passes "
        "(ProvenancePolicy 'production'); it is applied by Kustomization/shop/web from "
        "GitRepository/flux-system/fleet (https://git.example/fleet.git) in directory 'apps/web', "
        "change it there. Ask in #platform."
    )


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (attempt("CREATE", name=""), "a new Deployment in namespace 'shop' may not be created"),
        (attempt("DELETE"), "Deployment/shop/web may not be deleted"),
        (attempt(subresource="scale"), "Deployment/shop/web may not be scaled"),
        (attempt(subresource="resize"), "Deployment/shop/web (resize) may not be changed"),
    ],
)
def test_a_refusal_says_what_was_asked(one: Attempt, said: str) -> None:
    text = provenance.refusal(one, provenance.unproven([policy()], "no"), None)

    assert text.startswith(f"{said} by 'alice': no (ProvenancePolicy 'production'); add it to")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:secret@git.example/x", " (https://git.example/x)"),
        ("https://git.example/x?token=secret", ""),
    ],
)
def test_a_refusal_shows_no_secret_of_a_url(url: str, shown: str) -> None:
    standing = Standing(applier=APPLIER, account=STANDING.account, parts=(part(url),))

    assert str(provenance.home(standing)) == (
        f"Kustomization/shop/web from GitRepository/flux-system/fleet{shown}"
    )


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"kustomize.toolkit.fluxcd.io/name": "web"},
        {"kustomize.toolkit.fluxcd.io/namespace": "shop"},
        {"kustomize.toolkit.fluxcd.io/name": "", "kustomize.toolkit.fluxcd.io/namespace": "shop"},
    ],
)
def test_half_a_label_names_no_owner(labels: Json) -> None:
    assert provenance.owners_of({"metadata": {"labels": labels}}) == ()


def test_labels_may_name_an_applier_of_each_kind() -> None:
    groups = ("kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io")
    labels = {f"{g}/{k}": v for g in groups for k, v in (("name", "web"), ("namespace", "shop"))}

    owners = provenance.owners_of({"metadata": {"labels": labels}})

    assert [str(owner) for owner in owners] == ["Kustomization/shop/web", "HelmRelease/shop/web"]


def glass(text: str) -> provenance.Glass | None:
    return provenance.broken({provenance.BREAK_GLASS: text}, now=NOW)


def test_the_glass_is_broken_until_its_time_is_up() -> None:
    found = glass("2026-05-01T14:00:00Z incident 42")

    assert found == provenance.Glass(until=NOW + timedelta(hours=2), reason="incident 42")
    assert glass("2026-05-01T12:00:00Z incident 42") is None
    assert glass("") is None
    assert provenance.broken({}, now=NOW) is None


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "incident 42",
        "2026-05-01T14:00:00Z",
        "2026-05-01T14:00:00 no zone",
        "2026-05-02T12:00:01Z too long",
        "9999-12-31T23:59:59Z for ever",
    ],
)
def test_the_glass_needs_an_end_and_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match="break-glass"):
        glass(text)
