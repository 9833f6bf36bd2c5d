"""Generated manifests are moved into the namespace that was asked for."""

from pathlib import Path

import pytest

from cli import errors
from cli.stack import install


def test_objects_and_their_rbac_subjects_move_together() -> None:
    binding = {
        "kind": "RoleBinding",
        "metadata": {"name": "source", "namespace": "penstock-system"},
        "subjects": [
            {"kind": "ServiceAccount", "name": "source", "namespace": "penstock-system"},
            {"kind": "Group", "name": "admins"},
        ],
    }

    moved = install.in_namespace(binding, "elsewhere")

    assert moved["metadata"]["namespace"] == "elsewhere"
    assert moved["subjects"][0]["namespace"] == "elsewhere"
    assert moved["subjects"][1] == {"kind": "Group", "name": "admins"}
    assert binding["metadata"]["namespace"] == "penstock-system"


def test_cluster_scoped_objects_stay_so() -> None:
    role = {"kind": "ClusterRole", "metadata": {"name": "source"}}

    assert install.in_namespace(role, "elsewhere")["metadata"] == {"name": "source"}


def test_all_documents_are_read_in_order_but_kustomizations(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("kind: B1\n---\nkind: B2\n---\n")
    (tmp_path / "a.yaml").write_text("kind: A\n")
    (tmp_path / "kustomization.yaml").write_text("kind: Kustomization\n")

    assert [doc["kind"] for doc in install.manifests(tmp_path)] == ["A", "B1", "B2"]


def test_missing_manifests_are_told_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="make generate"):
        install.manifests(tmp_path)
