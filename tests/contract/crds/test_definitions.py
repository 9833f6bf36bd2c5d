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
    created = run("create", "-n", namespace, "-f", "-", documents=[GIT_REPOSITORY, KUSTOMIZATION])
    assert created.returncode == 0, created.stderr


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.kind)
def test_a_definition_is_established_and_structural(run: Any, kind: Any) -> None:
    crd = json.loads(run("get", "crd", kind.crd_name, "-o", "json").stdout)

    conditions = {each["type"]: each["status"] for each in crd["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions
    assert crd["status"]["storedVersions"] == ["v1"]


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


def test_explain_tells_what_a_field_does(run: Any) -> None:
    told = run("explain", "kustomization.spec.retryInterval").stdout

    assert "Defaults to interval." in " ".join(told.split())
