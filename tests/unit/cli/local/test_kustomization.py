"""The Kustomization of a file."""

from pathlib import Path

import pytest

from cli import errors
from cli.local import kustomization
from toolkit.objects import ObjectKey, key_of

FILE = """
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: apps}
---
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
metadata: {name: apps}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: team}
spec: {interval: 10m, prune: true, sourceRef: {kind: GitRepository, name: team}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps}
spec: {interval: 10m, prune: true, sourceRef: {kind: GitRepository, name: own}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "all.yaml"
    path.write_text(FILE)
    return path


def test_right_one_is_taken_among_many(file: Path) -> None:
    assert kustomization.from_file(file, ObjectKey("team", "apps"))["spec"]["sourceRef"] == {
        "kind": "GitRepository",
        "name": "team",
    }


def test_one_without_a_namespace_is_in_the_wanted_one(file: Path) -> None:
    found = kustomization.from_file(file, ObjectKey("flux-system", "apps"))

    assert key_of(found) == ObjectKey("flux-system", "apps")
    assert found["spec"]["sourceRef"]["name"] == "own"


def test_file_without_it_is_refused(file: Path) -> None:
    with pytest.raises(errors.UsageError, match="contains no Kustomization flux-system/infra"):
        kustomization.from_file(file, ObjectKey("flux-system", "infra"))


def test_malformed_one_is_refused_with_the_field() -> None:
    with pytest.raises(errors.UsageError, match=r"prune"):
        kustomization.decode({"metadata": {"name": "x"}, "spec": {"interval": "1m", "prune": "x"}})
