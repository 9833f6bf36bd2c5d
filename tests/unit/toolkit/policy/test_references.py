"""Who may refer to whom, and that no field which could is forgotten."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import crds
from crds import schema
from crds.policy_referencegrant import ReferenceGrant, ReferenceGrantTo
from tests.fakes.granting import KUSTOMIZE, SOURCE, GrantCache, allowing, grant
from toolkit.errors import AccessDeniedError, WaitingError
from toolkit.objects import GroupVersionKind, Json, ObjectRef
from toolkit.policy.grants import Grants, Permission
from toolkit.policy.references import (
    OTHERS,
    REFERENCES,
    BlockedError,
    References,
    UngrantedError,
    references,
)

GIT = GroupVersionKind(SOURCE, "v1", "GitRepository")
KUSTOMIZATION = GroupVersionKind(KUSTOMIZE, "v1", "Kustomization")
HOLDER = ObjectRef(KUSTOMIZATION, "team", "app")
TARGET = ObjectRef(GIT, "platform", "fleet")
FROM = {"group": KUSTOMIZE, "kind": "Kustomization", "namespace": "team"}
TO = {"group": SOURCE, "kind": "GitRepository"}


Told = list[tuple[str, frozenset[Permission]]]
ALLOWED = Permission(KUSTOMIZE, "Kustomization", "team", SOURCE, "GitRepository", "")


def namespace_fields(node: Json, path: str = "") -> Iterator[str]:
    """Yield the path of every property that is called namespace, or ends with it."""
    for name, inner in node.get("properties", {}).items():
        here = f"{path}.{name}".lstrip(".")
        if re.search("namespace$", name, re.IGNORECASE):
            yield here
        element = inner.get("items")
        yield from namespace_fields(element or inner, f"{here}[]" if element else here)


def fields_of_all_versions() -> set[tuple[str, str, str]]:
    found = set()
    # what belongs to the cluster is its administrators', who may name whom they like
    for kind in (kind for kind in crds.KINDS if kind.namespaced):
        for model in (kind.model, *(old.model for old in kind.older)):
            node = schema.annotated(model)["properties"]
            for part in ("spec", "status"):
                for path in namespace_fields(node.get(part, {}), part):
                    found.add((kind.group, kind.kind, path))
    return found


def test_every_namespace_field_of_every_version_is_in_a_table() -> None:
    decided = {(*field.holder, f"{field.path}.namespace") for field in REFERENCES}
    others = {(*field.holder, field.path) for field in OTHERS}

    assert decided | others == fields_of_all_versions()
    assert not decided & others


def test_every_other_field_says_why() -> None:
    assert all(field.why for field in OTHERS)


@pytest.mark.parametrize("namespace", ["team", ""])
def test_own_namespace_is_always_allowed(namespace: str) -> None:
    allowing(cross_namespace=False).require(HOLDER, ObjectRef(GIT, namespace, "app"))


def test_another_namespace_is_denied_by_default() -> None:
    with pytest.raises(AccessDeniedError) as caught:
        allowing().require(HOLDER, TARGET)

    assert str(caught.value) == (
        "can't access 'GitRepository/platform/fleet', no ReferenceGrant in namespace 'platform' "
        "lets a Kustomization of namespace 'team' refer to it"
    )
    assert caught.value.reason == "AccessDenied"


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        (grant("platform", of=FROM, to=TO), True),
        (grant("platform", of=FROM, to=TO | {"name": "fleet"}), True),
        (grant("platform", of=FROM | {"namespace": "*"}, to=TO), True),
        (grant("platform", of=FROM, to=TO | {"name": "other"}), False),
        (grant("platform", of=FROM, to=TO | {"kind": "Bucket"}), False),
        (grant("platform", of=FROM, to=TO | {"group": ""}), False),
        (grant("platform", of=FROM | {"namespace": "tea"}, to=TO), False),
        (grant("platform", of=FROM | {"kind": "ArtifactGenerator"}, to=TO), False),
        (grant("platform", of=FROM | {"group": "evil.example"}, to=TO), False),
        # a tenant can write grants in its own namespace, and opens nothing but that
        (grant("team", of=FROM, to=TO), False),
    ],
)
def test_only_a_grant_of_the_target_for_both_kinds_allows(
    given: ReferenceGrant, *, allowed: bool
) -> None:
    decision = allowing(given)

    if allowed:
        decision.require(HOLDER, TARGET)
    else:
        with pytest.raises(AccessDeniedError):
            decision.require(HOLDER, TARGET)


def test_grants_add_up_and_their_parts_do_not_mix() -> None:
    bucket = grant("platform", of=FROM | {"namespace": "other"}, to=TO, name="a")
    mine = grant("platform", of=FROM, to=TO | {"kind": "Bucket"}, name="b")

    with pytest.raises(AccessDeniedError):
        allowing(bucket, mine).require(HOLDER, TARGET)
    allowing(bucket, mine, grant("platform", of=FROM, to=TO)).require(HOLDER, TARGET)


def test_the_flag_forbids_what_is_granted() -> None:
    given = grant("platform", of=FROM, to=TO)

    with pytest.raises(AccessDeniedError, match="references have been blocked"):
        allowing(given, cross_namespace=False).require(HOLDER, TARGET)


def test_waiting_for_another_needs_no_grant_and_reading_it_does() -> None:
    base = ObjectRef(KUSTOMIZATION, "platform", "base")

    allowing().require(HOLDER, base, reads=False)
    with pytest.raises(UngrantedError):
        allowing().require(HOLDER, base)


def test_the_flag_forbids_waiting_as_well() -> None:
    with pytest.raises(BlockedError):
        allowing(cross_namespace=False).require(HOLDER, TARGET, reads=False)


def test_a_missing_grant_is_let_pass_where_it_is_only_warned_of_and_is_still_told() -> None:
    lenient = References(grants=lambda _: (), enforced=False)

    lenient.require(HOLDER, TARGET)

    assert isinstance(lenient.denial(HOLDER, TARGET), UngrantedError)


def test_the_flag_that_forbids_all_is_enforced_whatever_else_is_only_warned_of() -> None:
    with pytest.raises(BlockedError):
        References(grants=lambda _: (), cross_namespace=False, enforced=False).require(
            HOLDER, TARGET
        )


def test_all_denied_references_of_an_object_are_found() -> None:
    needs = [
        {"name": "base", "namespace": "platform"},
        {"name": "base", "namespace": "platform", "readyExpr": "dep.status.x == 1"},
        {"name": "mine", "readyExpr": "dep.status.x == 1"},
    ]
    source = {"kind": "GitRepository", "name": "fleet", "namespace": "platform"}
    obj = {
        "apiVersion": f"{KUSTOMIZE}/v1",
        "kind": "Kustomization",
        "spec": {"sourceRef": source, "dependsOn": needs},
    }

    denied = allowing().denials(HOLDER, references(obj, "team"))

    assert [each.path for each, _ in denied] == ["spec.sourceRef", "spec.dependsOn[1]"]


def test_nothing_is_decided_before_the_grants_are_known() -> None:
    decision = References(grants=Grants(GrantCache(synced=False)))

    with pytest.raises(WaitingError, match="not read yet"):
        decision.require(HOLDER, TARGET)


def test_the_end_of_a_grant_is_told_and_counts_at_once() -> None:
    given = grant("platform", of=FROM, to=TO)
    cache = GrantCache(given)
    grants, told = Grants(cache), Told()
    grants.subscribe(lambda *change: told.append(change))
    decision = References(grants=grants)
    decision.require(HOLDER, TARGET)

    cache.drop(given)

    assert told == [("platform", {ALLOWED})]
    with pytest.raises(AccessDeniedError):
        decision.require(HOLDER, TARGET)


def test_a_grant_that_a_finalizer_holds_back_grants_nothing() -> None:
    cache = GrantCache(grant("platform", of=FROM, to=TO))
    grants, told = Grants(cache), Told()
    grants.subscribe(lambda *change: told.append(change))

    dying = grant("platform", of=FROM, to=TO, deletionTimestamp="2026-01-01T00:00:00Z")
    cache.put(dying)

    assert told == [("platform", {ALLOWED})]
    with pytest.raises(AccessDeniedError):
        References(grants=grants).require(HOLDER, TARGET)


def test_a_change_of_a_grant_tells_no_more_than_what_it_changes() -> None:
    both = grant("platform", of=FROM, to=TO)
    more = msgspec.structs.replace(both.spec, to=[*both.spec.to, *_to("Bucket", "x")])
    cache = GrantCache(both)
    grants, told = Grants(cache), Told()
    grants.subscribe(lambda *change: told.append(change))

    cache.put(msgspec.structs.replace(both, spec=more))

    changed = ALLOWED._replace(target_kind="Bucket", target_name="x")
    assert told == [("platform", {changed})]


def _to(kind: str, name: str) -> list[ReferenceGrantTo]:
    return [ReferenceGrantTo(group=SOURCE, kind=kind, name=name)]


def test_a_label_on_a_grant_wakes_nobody() -> None:
    cache = GrantCache(grant("platform", of=FROM, to=TO))
    grants, told = Grants(cache), Told()
    grants.subscribe(lambda *change: told.append(change))

    cache.put(grant("platform", of=FROM, to=TO, labels={"a": "b"}))

    assert told == []


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_references_are_read_from_every_version(version: str) -> None:
    obj: dict[str, Any] = {
        "apiVersion": f"{KUSTOMIZE}/{version}",
        "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": "team"},
        "spec": {
            # whatever version or group it claims to be, the controller goes by the kind
            "sourceRef": {"apiVersion": "evil/v1", "kind": "Bucket", "name": "b"},
            "sourceRefs": [
                {"kind": "GitRepository", "name": "a", "namespace": "", "path": "a"},
                {"kind": "GitRepository", "name": "x", "namespace": "x", "path": "x"},
            ],
            "dependsOn": [{"name": "infra", "namespace": "platform"}],
        },
    }

    found = {
        each.path: (each.target.gvk.group, str(each.target)) for each in references(obj, "team")
    }

    assert found == {
        "spec.sourceRef": (SOURCE, "Bucket/team/b"),
        "spec.sourceRefs[0]": (SOURCE, "GitRepository/team/a"),
        "spec.sourceRefs[1]": (SOURCE, "GitRepository/x/x"),
        "spec.dependsOn[0]": (KUSTOMIZE, "Kustomization/platform/infra"),
    }


def test_a_release_refers_to_its_chart_and_to_what_it_waits_for() -> None:
    obj = {
        "apiVersion": "helm.toolkit.fluxcd.io/v2beta1",
        "kind": "HelmRelease",
        "spec": {
            "chart": {"spec": {"sourceRef": {"kind": "HelmRepository", "name": "r"}}},
            "chartRef": {"kind": "OCIRepository", "name": "o", "namespace": "far"},
            "dependsOn": [
                {"name": "a"},
                {"name": "b", "kind": "Kustomization", "namespace": "far", "readyExpr": "true"},
                {"name": "c", "kind": "Secret"},
            ],
        },
    }

    found = [
        (each.path, *each.target.gvk.group_kind, each.target.namespace, each.reads)
        for each in references(obj, "team")
    ]

    helm = "helm.toolkit.fluxcd.io"
    assert found == [
        ("spec.chart.spec.sourceRef", SOURCE, "HelmRepository", "team", True),
        ("spec.chartRef", SOURCE, "OCIRepository", "far", True),
        ("spec.dependsOn[0]", helm, "HelmRelease", "team", False),
        ("spec.dependsOn[1]", KUSTOMIZE, "Kustomization", "far", True),
        ("spec.dependsOn[2]", helm, "HelmRelease", "team", False),
    ]
