"""The API server takes the definitions whole and serves them under the names that users type."""

from collections.abc import Iterator
from typing import Any

import pytest

import crds
from tests.contract.crds.conftest import Kubectl, Objects
from tests.tools import namespaces
from tests.tools.administrator import Administrator

GIT_REPOSITORY = {
    "apiVersion": "source.toolkit.fluxcd.io/v1",
    "kind": "GitRepository",
    "metadata": {"name": "fleet"},
    "spec": {"interval": "5m", "url": "https://example.com/fleet.git"},
}
KUSTOMIZATION = {
    "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
    "kind": "Kustomization",
    "metadata": {"name": "apps"},
    "spec": {
        "interval": "10m",
        "prune": True,
        "sourceRef": {"kind": "GitRepository", "name": "fleet"},
    },
}
HELM_RELEASE = {
    "apiVersion": "helm.toolkit.fluxcd.io/v2",
    "kind": "HelmRelease",
    "metadata": {"name": "shop"},
    "spec": {"interval": "10m", "chartRef": {"kind": "OCIRepository", "name": "chart"}},
}
SOURCE_GROUP = "source.toolkit.fluxcd.io/v1"
OTHER_SOURCES = [
    {
        "apiVersion": SOURCE_GROUP,
        "kind": "OCIRepository",
        "metadata": {"name": "image"},
        "spec": {"interval": "5m", "url": "oci://example.com/manifests"},
    },
    {
        "apiVersion": SOURCE_GROUP,
        "kind": "Bucket",
        "metadata": {"name": "objects"},
        "spec": {"interval": "5m", "endpoint": "minio.example.com", "bucketName": "fleet"},
    },
    {
        "apiVersion": SOURCE_GROUP,
        "kind": "HelmRepository",
        "metadata": {"name": "charts"},
        "spec": {"url": "https://charts.example.com"},
    },
    {
        "apiVersion": SOURCE_GROUP,
        "kind": "HelmChart",
        "metadata": {"name": "web"},
        "spec": {
            "interval": "5m",
            "chart": "web",
            "version": "1.x",
            "sourceRef": {"kind": "HelmRepository", "name": "charts"},
        },
    },
    {
        "apiVersion": SOURCE_GROUP,
        "kind": "ExternalArtifact",
        "metadata": {"name": "made"},
        "spec": {"sourceRef": {"apiVersion": "example.com/v1", "kind": "Maker", "name": "m"}},
    },
    {
        "apiVersion": "source.extensions.fluxcd.io/v1beta1",
        "kind": "ArtifactGenerator",
        "metadata": {"name": "composed"},
        "spec": {
            "sources": [{"alias": "git", "kind": "GitRepository", "name": "fleet"}],
            "artifacts": [
                {"name": "all", "copy": [{"from": "@git/**", "to": "@artifact/"}]},
            ],
        },
    },
]
READY = {
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Succeeded",
            "message": "all is well",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
    ]
}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
NAMES = {
    "gitrepository.source.toolkit.fluxcd.io/fleet",
    "ocirepository.source.toolkit.fluxcd.io/image",
    "bucket.source.toolkit.fluxcd.io/objects",
    "helmrepository.source.toolkit.fluxcd.io/charts",
    "helmchart.source.toolkit.fluxcd.io/web",
    "externalartifact.source.toolkit.fluxcd.io/made",
    "artifactgenerator.source.extensions.fluxcd.io/composed",
}
KUSTOMIZATIONS = {"kustomization.kustomize.toolkit.fluxcd.io/apps"}
RELEASES = {"helmrelease.helm.toolkit.fluxcd.io/shop"}
APPLIERS = KUSTOMIZATIONS | RELEASES


@pytest.fixture(scope="module")
def space(administrator: Administrator, definitions: None) -> Iterator[Objects]:
    """Write an object of each kind that has a namespace, with one that is ready."""
    del definitions
    written = Objects(administrator, namespaces.create_blocking(administrator))
    for document in (GIT_REPOSITORY, KUSTOMIZATION, HELM_RELEASE, *OTHER_SOURCES):
        written.create(document)
    for document in (GIT_REPOSITORY, KUSTOMIZATION):
        written.patch_status(document, READY)
    yield written
    namespaces.delete_blocking(administrator, written.namespace)


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.kind)
def test_a_definition_is_established_and_structural(
    administrator: Administrator, definitions: None, kind: Any
) -> None:
    del definitions

    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind.crd_name}"
    status = administrator.send("GET", path)["status"]

    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions
    assert status["storedVersions"] == [kind.version]


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        ("gitrepo,gitrepositories", {"gitrepository.source.toolkit.fluxcd.io/fleet"}),
        ("ocirepo,bucket,helmrepo,hc,ea,ag,gitrepo", NAMES),
        ("ks", KUSTOMIZATIONS),
        ("hr", RELEASES),
        ("fluxcd-sources", NAMES),
        ("fluxcd-appliers", APPLIERS),
        ("fluxcd", NAMES | APPLIERS),
        ("all", NAMES | APPLIERS),
    ],
)
def test_short_names_and_categories_list_the_objects(
    run: Kubectl, space: Objects, words: str, listed: set[str]
) -> None:
    found = run("get", words, "-n", space.namespace, "-o", "name").split()

    assert set(found) == listed


def test_columns_show_readiness(run: Kubectl, space: Objects) -> None:
    repositories = run("get", "gitrepo", "-n", space.namespace).splitlines()
    kustomizations = run("get", "ks", "-n", space.namespace).splitlines()

    assert repositories[0].split() == ["NAME", "URL", "AGE", "READY", "STATUS"]
    assert "https://example.com/fleet.git" in repositories[1]
    assert "True    all is well" in repositories[1]
    assert kustomizations[0].split() == ["NAME", "AGE", "READY", "STATUS"]
    assert "True    all is well" in kustomizations[1]


@pytest.mark.parametrize(
    ("document", "columns"),
    [
        (OTHER_SOURCES[0], ["URL", "Ready", "Status", "Age"]),
        (OTHER_SOURCES[1], ["Endpoint", "Age", "Ready", "Status"]),
        (OTHER_SOURCES[2], ["URL", "Age", "Ready", "Status"]),
        (
            OTHER_SOURCES[3],
            ["Chart", "Version", "Source Kind", "Source Name", "Age", "Ready", "Status"],
        ),
        (OTHER_SOURCES[4], ["Age", "Ready", "Status", "Source"]),
        (OTHER_SOURCES[5], ["Age", "Ready", "Status"]),
    ],
    ids=lambda part: part["kind"] if isinstance(part, dict) else "",
)
def test_every_source_has_the_columns_that_users_know(
    space: Objects, document: dict[str, Any], columns: list[str]
) -> None:
    table = space.administrator.send("GET", space.path(document), accept=TABLE)

    shown = [each["name"] for each in table["columnDefinitions"] if each["priority"] == 0]
    assert shown == ["Name", *columns]
    assert [row["cells"][0] for row in table["rows"]] == [document["metadata"]["name"]]


def test_explain_tells_what_a_field_does(run: Kubectl, definitions: None) -> None:
    del definitions

    told = run("explain", "kustomization.spec.retryInterval")

    assert "Defaults to interval." in " ".join(told.split())
