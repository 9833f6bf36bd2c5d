"""A definition carries what the API server and the flux command look for."""

from typing import Any

import pytest

import crds
from cli.versions import targets
from crds import manifest
from crds.kind import Kind

OLDER = {
    "GitRepository": ["v1beta2", "v1beta1"],
    "OCIRepository": ["v1beta2"],
    "Bucket": ["v1beta2", "v1beta1"],
    "HelmRepository": ["v1beta2", "v1beta1"],
    "HelmChart": ["v1beta2", "v1beta1"],
    "ExternalArtifact": [],
    "ArtifactGenerator": [],
    "Kustomization": ["v1beta2", "v1beta1"],
    "HelmRelease": ["v2beta2", "v2beta1"],
    "Provider": ["v1beta3", "v1beta2", "v1beta1"],
    "Alert": ["v1beta3", "v1beta2", "v1beta1"],
    "Receiver": ["v1beta2", "v1beta1"],
    "ImageRepository": ["v1beta2", "v1beta1"],
    "ImagePolicy": ["v1beta2", "v1beta1"],
    "ImageUpdateAutomation": ["v1beta2", "v1beta1"],
}
NEWEST = {"ArtifactGenerator": "v1beta1", "HelmRelease": "v2", "policy.penstock.dev": "v1alpha1"}
"""By kind or group where it is not v1."""


@pytest.fixture(params=crds.KINDS, ids=lambda kind: kind.kind)
def definition(request: pytest.FixtureRequest) -> dict[str, Any]:
    return manifest.definition(request.param, release="v9.9.9")


def test_one_version_is_stored(definition: dict[str, Any]) -> None:
    kind = definition["spec"]["names"]["kind"]
    newest = NEWEST.get(kind) or NEWEST.get(definition["spec"]["group"], "v1")

    served, *older = definition["spec"]["versions"]

    assert served["name"] == newest
    assert (served["served"], served["storage"]) == (True, True)
    assert [each["name"] for each in older] == OLDER.get(kind, [])
    assert not any(each["storage"] for each in older)


def test_conditions_are_one_field_of_their_writer(definition: dict[str, Any]) -> None:
    # as in Flux; entries that the server tells apart are most of what it has to compare
    for version in definition["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]["properties"].get("status", {})
        conditions = schema.get("properties", {}).get("conditions", {})
        assert "x-kubernetes-list-type" not in conditions


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.kind)
def test_every_version_is_served_with_the_gate(kind: Kind[Any]) -> None:
    versions = manifest.definition(kind, release="v9.9.9")["spec"]["versions"]

    assert all(each["served"] for each in versions)


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.kind)
def test_versions_that_are_not_just_relabelled_are_served_with_the_gate_only(
    kind: Kind[Any],
) -> None:
    versions = manifest.definition(kind, release="v9.9.9", gate=False)["spec"]["versions"]

    served = {each["name"] for each in versions if each["served"]}
    assert served == {kind.version, *(old.version for old in kind.older if not old.changes)}


def test_published_manifests_of_v1beta2_need_no_gate() -> None:
    changed = {
        (kind.kind, old.version) for kind in crds.KINDS for old in kind.older if not old.relabelled
    }

    assert changed == {(kind, "v1beta1") for kind in ("GitRepository", "Bucket", "HelmRepository")}


def test_how_objects_are_converted_is_left_to_the_gate(definition: dict[str, Any]) -> None:
    assert "conversion" not in definition["spec"]


def test_an_older_version_says_what_to_use_instead(definition: dict[str, Any]) -> None:
    kind = next(k for k in crds.KINDS if k.crd_name == definition["metadata"]["name"])
    shared = next((old.version for old in kind.older if old.current), kind.version)
    for old in definition["spec"]["versions"][1:]:
        if old["name"] == shared:
            continue
        assert old["deprecated"] is True
        assert old["deprecationWarning"].endswith(f"is deprecated, use {kind.group}/{shared}")


def test_no_version_that_flux_has_as_its_newest_is_deprecated(definition: dict[str, Any]) -> None:
    spec = definition["spec"]
    newest = targets.TABLES[targets.DEFAULT].get((spec["group"], spec["names"]["kind"]))

    warned = {each["name"] for each in spec["versions"] if each.get("deprecated")}

    assert newest not in warned


def test_the_flux_command_knows_its_kinds_as_ours_and_deletes_none(
    definition: dict[str, Any],
) -> None:
    labels = definition["metadata"]["labels"]

    assert labels["app.kubernetes.io/part-of"] == "penstock"
    assert labels["app.kubernetes.io/version"] == "v9.9.9"
    assert labels["app.kubernetes.io/managed-by"] == "penstock"


def test_substitution_leaves_descriptions_alone(definition: dict[str, Any]) -> None:
    annotations = definition["metadata"]["annotations"]

    assert annotations["kustomize.toolkit.fluxcd.io/substitute"] == "disabled"


def test_every_version_with_a_status_has_it_as_subresource(definition: dict[str, Any]) -> None:
    for each in definition["spec"]["versions"]:
        fields = each["schema"]["openAPIV3Schema"]["properties"]
        assert each["subresources"] == ({"status": {}} if "status" in fields else {})


@pytest.mark.parametrize(
    ("kind", "scope"), [(crds.SOURCE_POLICY, "Cluster"), (crds.REFERENCE_GRANT, "Namespaced")]
)
def test_a_policy_belongs_to_those_who_may_write_it(kind: Kind[Any], scope: str) -> None:
    assert manifest.definition(kind, release="v9.9.9")["spec"]["scope"] == scope


def test_nothing_is_written_that_the_server_would_not_keep(definition: dict[str, Any]) -> None:
    assert definition["spec"]["names"].get("shortNames") != []
