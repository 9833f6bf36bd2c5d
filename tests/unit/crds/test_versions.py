"""No served version of a kind lacks a field that another has."""

from collections.abc import Iterator
from typing import Any

import pytest

import crds
from crds import schema, versions
from crds.kind import Kind, OldVersion

OLD = [
    pytest.param(kind, old, id=f"{kind.kind}-{old.version}")
    for kind in crds.KINDS
    for old in kind.older
]


def paths(node: schema.Schema, path: str = "") -> Iterator[str]:
    for name, field in node.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from paths(field, f"{path}.{name}")
    if "items" in node:
        yield from paths(node["items"], f"{path}[]")


def at(node: schema.Schema, path: str) -> Any:
    for step in path.split("."):
        node = node["properties"][step]
    return node


@pytest.mark.parametrize(("kind", "old"), OLD)
def test_all_versions_have_the_same_fields(kind: Kind[Any], old: OldVersion) -> None:
    here, newest = versions.older(kind, old), versions.newest(kind)

    assert set(paths(here)) == set(paths(newest))
    assert set(paths(schema.annotated(old.model))) <= set(paths(here))


@pytest.mark.parametrize(("kind", "old"), OLD)
def test_an_old_version_demands_nothing_that_the_newest_does_not(
    kind: Kind[Any], old: OldVersion
) -> None:
    here, newest = versions.older(kind, old), versions.newest(kind)

    assert demands(here) <= demands(newest)


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.kind)
def test_the_newest_version_demands_what_its_model_demands(kind: Kind[Any]) -> None:
    inner = set(paths(schema.annotated(kind.model)))

    found = {path for path in demands(versions.newest(kind)) if path in inner}

    assert found == demands(schema.annotated(kind.model))


def demands(node: schema.Schema, path: str = "") -> set[str]:
    found = {f"{path}.{name}" for name in node.get("required", ())}
    for name, field in node.get("properties", {}).items():
        found |= demands(field, f"{path}.{name}")
    return found | (demands(node["items"], f"{path}[]") if "items" in node else set())


def test_a_field_of_an_old_version_has_no_default_in_the_newest() -> None:
    newest = versions.newest(crds.GIT_REPOSITORY)

    kept = at(newest, "spec.gitImplementation")

    assert not {"default", "x-penstock-implied-default"} & kept.keys()
    assert kept["description"].endswith("Kept for v1beta2.")


def test_an_old_version_takes_values_of_all_versions() -> None:
    newest, (_, v1beta1) = crds.KUSTOMIZATION, crds.KUSTOMIZATION.older
    git, (git_v1beta2, git_v1beta1) = crds.GIT_REPOSITORY, crds.GIT_REPOSITORY.older

    assert set(at(versions.older(newest, v1beta1), "spec.sourceRef.kind")["enum"]) == {
        *("GitRepository", "Bucket", "OCIRepository", "ExternalArtifact")
    }
    assert "pattern" not in at(versions.older(git, git_v1beta1), "spec.interval")
    assert "pattern" in at(versions.older(git, git_v1beta2), "spec.interval")
    assert set(at(versions.older(git, git_v1beta2), "spec.verify.mode")["enum"]) == {
        *("head", "HEAD", "Tag", "TagAndHEAD")
    }


def test_an_old_version_keeps_its_own_defaults_and_texts() -> None:
    repository = versions.older(crds.HELM_REPOSITORY, crds.HELM_REPOSITORY.older[1])

    assert at(repository, "spec.timeout")["default"] == "60s"
    assert at(repository, "spec.url")["description"] == (
        "Address of the repository, over HTTP or HTTPS."
    )
