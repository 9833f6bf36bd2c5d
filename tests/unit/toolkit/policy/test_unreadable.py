"""A policy that cannot be read refuses what it may govern, and says which policy it is."""

from typing import Any

import msgspec
import pytest

import crds
from crds.meta import VERIFIED
from crds.policy_image import ImageVerificationPolicy
from crds.policy_provenance import ProvenancePolicy
from crds.policy_referencegrant import ReferenceGrant
from crds.policy_source import SourcePolicy
from toolkit.kube.undecoded import Undecoded
from toolkit.objects import Json
from toolkit.policy import imagepolicies, imagereference, origins, selectors, sources, unreadable

LABELS = {"team": "shop"}
SELECTED = {"matchLabels": LABELS}
LATER: Any = {"kind": "Later"}
"""A value that no field of a policy has."""


def undecodable(model: type[Any], spec: Any, **metadata: Any) -> Undecoded:
    """Return a policy as the informer keeps it."""
    raw = msgspec.json.encode({"metadata": {"name": "strict", **metadata}, "spec": spec})
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(raw, type=model)
    return Undecoded(raw, caught.value)


def source_policy(spec: Any) -> SourcePolicy:
    return unreadable.source_policy(undecodable(SourcePolicy, spec))


SOURCE: Json = {
    "apiVersion": "source.toolkit.fluxcd.io/v1",
    "kind": "GitRepository",
    "metadata": {"name": "app", "namespace": "team"},
    "spec": {"url": "https://github.com/acme/app"},
}


def test_every_kind_of_policy_has_a_stand_in() -> None:
    ours = {kind.kind for kind in crds.KINDS if kind.group == "policy.penstock.dev"}

    assert ours == set(unreadable.MEANWHILE)


def test_a_source_policy_that_cannot_be_read_allows_no_source() -> None:
    policy = source_policy({"namespaceSelector": SELECTED, "sources": [LATER]})
    signed = {VERIFIED: "x", origins.RECORD: origins.record(origins.own(SOURCE), ())}

    found = [
        *sources.judge(SOURCE, [policy]),
        *sources.judge_artifact("GitRepository", signed, [policy]),
        *sources.judge_artifact("HelmChart", {}, [policy]),
    ]

    assert len(sources.enforced(found)) == 3
    for each in found:
        assert "the policy cannot be read" in str(each)
        assert "spec.sources[0].kind" in str(each)
        assert "correct or delete the policy (SourcePolicy 'strict')" in str(each)
        assert "Later" not in str(each)


@pytest.mark.parametrize(
    ("spec", "mode"),
    [
        ({"mode": "Warn", "sources": [LATER]}, "Warn"),
        ({"mode": "Audit", "sources": [LATER]}, "Audit"),
        ({"sources": [LATER]}, "Enforce"),
        ({"mode": "Block", "sources": []}, "Enforce"),
        ({"mode": None, "sources": []}, "Enforce"),
        ([], "Enforce"),
        (None, "Enforce"),
        ("Warn", "Enforce"),
    ],
)
def test_its_mode_counts_as_far_as_it_can_be_read(spec: Any, mode: str) -> None:
    (found,) = sources.judge(SOURCE, [source_policy(spec)])

    assert found.mode == mode


@pytest.mark.parametrize(
    ("spec", "held"),
    [
        ({"namespaceSelector": SELECTED, "sources": [LATER]}, ["shop"]),
        ({"namespaceSelector": {}, "sources": [LATER]}, ["shop", "ads", "system"]),
        ({"sources": [LATER]}, ["shop", "ads"]),
        ({"namespaceSelector": {"matchFields": []}, "sources": 1}, ["shop", "ads", "system"]),
        ({"namespaceSelector": {"matchExpressions": [LATER]}}, ["shop", "ads"]),
        ({"namespaceSelector": "team=shop"}, ["shop", "ads"]),
        (7, ["shop", "ads"]),
    ],
)
def test_it_holds_where_it_selects_or_else_everywhere(spec: Any, held: list[str]) -> None:
    policy = source_policy(spec)

    found = [
        name
        for name in ("shop", "ads", "system")
        if selectors.applicable([policy], namespace=name, labels={"team": name}, installed="system")
    ]

    assert found == held


@pytest.mark.parametrize(
    ("resources", "about"),
    [
        ({}, {"deployments"}),
        ({"resources": [{"apiGroups": [""], "resources": ["secrets"]}]}, {"secrets"}),
        ({"resources": [LATER]}, {"deployments", "secrets", "widgets"}),
    ],
)
def test_a_provenance_policy_keeps_what_it_is_about(resources: Json, about: set[str]) -> None:
    found = undecodable(ProvenancePolicy, {"origins": [{"source": 1}], **resources})
    policy = unreadable.provenance_policy(found)
    names = policy.spec.resources

    assert unreadable.why(policy).startswith("the policy cannot be read, so nothing satisfies it")
    assert {"widgets"} & about == ({"widgets"} if names and names[0].resources == ["*"] else set())
    assert policy.spec.origins == []


@pytest.mark.parametrize(
    ("spec", "bound"),
    [
        ({"images": ["ghcr.io/acme/**"], "verifiers": 1}, ["ghcr.io/acme/app"]),
        ({"images": 1, "verifiers": []}, ["ghcr.io/acme/app", "docker.io/library/nginx"]),
        ({"images": ["**"], "exclude": ["docker.io/**"], "verifiers": 1}, ["ghcr.io/acme/app"]),
        ({"images": ["**"], "exclude": 1}, ["ghcr.io/acme/app", "docker.io/library/nginx"]),
    ],
)
def test_an_image_policy_keeps_its_images(spec: Json, bound: list[str]) -> None:
    policy = unreadable.image_policy(undecodable(ImageVerificationPolicy, spec))

    found = [
        name
        for name in ("ghcr.io/acme/app", "docker.io/library/nginx")
        if imagepolicies.binds(policy, imagereference.parse(name))
    ]

    assert found == bound
    assert unreadable.why(policy)


def test_a_grant_that_cannot_be_read_grants_nothing() -> None:
    found = undecodable(
        ReferenceGrant, {"from": [{"group": "x", "kind": "K"}], "to": 1}, namespace="there"
    )

    grant = unreadable.grant(found)

    assert (grant.spec.from_, grant.spec.to) == ([], [])
    assert grant.metadata.namespace == "there"


def test_a_policy_that_can_be_read_is_no_stand_in() -> None:
    policy = msgspec.convert({"metadata": {"name": "a"}, "spec": {}}, ProvenancePolicy)

    assert not unreadable.why(policy)


def test_nothing_of_an_odd_object_ends_the_informer() -> None:
    for raw in (b"[]", b'{"metadata": 7, "spec": {}}', b"{" * 3000, b'{"spec": {"mode": ['):
        for stand_in in (unreadable.source_policy, unreadable.image_policy, unreadable.grant):
            assert stand_in(Undecoded(raw, ValueError("odd"))).metadata.name == ""
