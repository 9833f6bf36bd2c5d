"""The reference tells what the schema holds."""

import pytest

from crds import KUSTOMIZATION, reference


@pytest.fixture(scope="module")
def page() -> str:
    return reference.page("kustomize.toolkit.fluxcd.io", [KUSTOMIZATION])


def row(page: str, section: str, field: str) -> str:
    _, _, rest = page.partition(f"### {section}\n")
    return next(line for line in rest.splitlines() if line.startswith(f"| `{field}`"))


def test_required_fields_are_marked(page: str) -> None:
    assert "**(required)**" in row(page, "Kustomization.spec", "prune")
    assert "**(required)**" not in row(page, "Kustomization.spec", "path")


def test_written_and_implied_defaults_are_told_apart(page: str) -> None:
    assert "| `false` |" in row(page, "Kustomization.spec", "force")
    assert "| (MirrorPrune) |" in row(page, "Kustomization.spec", "deletionPolicy")


def test_validation_is_told(page: str) -> None:
    assert "max length `63`" in row(page, "Kustomization.spec", "targetNamespace")
    assert "unique by `path`" in row(page, "Kustomization.spec", "sourceRefs")
    assert "one of `ConfigMap`, `Secret`" in row(
        page, "Kustomization.spec.postBuild.substituteFrom[]", "kind"
    )
    assert "Rule: exactly one of secretRef or configMapRef must be set" in page


def test_patterns_do_not_break_the_table(page: str) -> None:
    assert r"(ms\|s\|m\|h)" in row(page, "Kustomization.spec", "interval")


def test_nested_structs_have_their_own_table(page: str) -> None:
    assert "JSON pointer" in row(page, "Kustomization.spec.patchesJson6902[].patch[]", "path")


def test_an_older_version_is_told_by_its_differences(page: str) -> None:
    _, _, oldest = page.partition("### Kustomization v1beta1: differences from v1\n")

    assert "| `spec.wait` | absent | boolean |" in oldest
    assert "| `status.snapshot` | object | absent |" in oldest
    assert "`spec.postBuild.substitute`" not in oldest
    assert "`status.snapshot.checksum`" not in oldest


def test_the_index_leads_to_every_page() -> None:
    index = reference.index(["a.example.com", "b.example.com"])

    assert "](a.example.com.md)" in index
    assert "](b.example.com.md)" in index
