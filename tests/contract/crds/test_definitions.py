"""The API server takes the definitions whole and serves them under the names that users type."""

import json
from typing import Any

import pytest

import crds

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
    "status": {
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
}


@pytest.fixture
def objects(run: Any, namespace: str) -> None:
    documents = [GIT_REPOSITORY, KUSTOMIZATION, *OTHER_SOURCES]
    created = run("create", "-n", namespace, "-f", "-", documents=documents)
    assert created.returncode == 0, created.stderr


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.kind)
def test_a_definition_is_established_and_structural(run: Any, kind: Any) -> None:
    crd = json.loads(run("get", "crd", kind.crd_name, "-o", "json").stdout)

    conditions = {each["type"]: each["status"] for each in crd["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions
    assert crd["status"]["storedVersions"] == [kind.version]


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.kind)
def test_applying_a_definition_again_changes_nothing(run: Any, kind: Any) -> None:
    before = run("get", "crd", kind.crd_name, "-o", "jsonpath={.metadata.generation}").stdout

    folder = str(crds.__path__[0]) + "/yaml"
    run("apply", "--server-side", "--field-manager=penstock", "-k", folder)

    after = run("get", "crd", kind.crd_name, "-o", "jsonpath={.metadata.generation}").stdout
    assert after == before


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        ("gitrepo", ["gitrepository.source.toolkit.fluxcd.io/fleet"]),
        ("gitrepositories", ["gitrepository.source.toolkit.fluxcd.io/fleet"]),
        ("ks", ["kustomization.kustomize.toolkit.fluxcd.io/apps"]),
        ("fluxcd-sources", ["gitrepository.source.toolkit.fluxcd.io/fleet"]),
        ("fluxcd-appliers", ["kustomization.kustomize.toolkit.fluxcd.io/apps"]),
        (
            "fluxcd",
            [
                "gitrepository.source.toolkit.fluxcd.io/fleet",
                "kustomization.kustomize.toolkit.fluxcd.io/apps",
            ],
        ),
        (
            "all",
            [
                "gitrepository.source.toolkit.fluxcd.io/fleet",
                "kustomization.kustomize.toolkit.fluxcd.io/apps",
            ],
        ),
    ],
)
@pytest.mark.usefixtures("objects")
def test_short_names_and_categories_list_the_objects(
    run: Any, namespace: str, words: str, listed: list[str]
) -> None:
    found = run("get", words, "-n", namespace, "-o", "name").stdout.split()

    assert sorted(set(found) & set(listed)) == listed


@pytest.mark.usefixtures("objects")
def test_columns_show_readiness(run: Any, namespace: str) -> None:
    for name in ("gitrepo/fleet", "ks/apps"):
        patch = ("--subresource=status", "--type=merge", "-p", json.dumps(READY))
        assert run("patch", name, "-n", namespace, *patch).returncode == 0

    repositories = run("get", "gitrepo", "-n", namespace).stdout.splitlines()
    kustomizations = run("get", "ks", "-n", namespace).stdout.splitlines()

    assert repositories[0].split() == ["NAME", "URL", "AGE", "READY", "STATUS"]
    assert "https://example.com/fleet.git" in repositories[1]
    assert "True    all is well" in repositories[1]
    assert kustomizations[0].split() == ["NAME", "AGE", "READY", "STATUS"]
    assert "True    all is well" in kustomizations[1]


@pytest.mark.parametrize(
    ("word", "listed", "columns"),
    [
        ("ocirepo", "image", ["URL", "READY", "STATUS", "AGE"]),
        ("bucket", "objects", ["ENDPOINT", "AGE", "READY", "STATUS"]),
        ("helmrepo", "charts", ["URL", "AGE", "READY", "STATUS"]),
        (
            "hc",
            "web",
            [*("CHART", "VERSION", "SOURCE", "KIND", "SOURCE", "NAME"), "AGE", "READY", "STATUS"],
        ),
        ("ea", "made", ["AGE", "READY", "STATUS", "SOURCE"]),
        ("ag", "composed", ["AGE", "READY", "STATUS"]),
    ],
)
@pytest.mark.usefixtures("objects")
def test_every_source_is_listed_under_its_short_name_and_as_a_source(
    run: Any, namespace: str, word: str, listed: str, columns: list[str]
) -> None:
    header, row = run("get", word, "-n", namespace).stdout.splitlines()
    sources = run("get", "fluxcd-sources", "-n", namespace, "-o", "name").stdout

    assert header.split() == ["NAME", *columns]
    assert row.split()[0] == listed
    assert f"/{listed}\n" in sources


def test_explain_tells_what_a_field_does(run: Any) -> None:
    told = run("explain", "kustomization.spec.retryInterval").stdout

    assert "Defaults to interval." in " ".join(told.split())
