"""What the API server stores: defaults where they are promised, nothing added, nothing lost."""

import json
from typing import Any

import msgspec
import pytest

import crds
from crds import kustomize, source
from tests.contract.crds.conftest import Objects

GIT_REPOSITORY: dict[str, Any] = {
    "apiVersion": "source.toolkit.fluxcd.io/v1",
    "kind": "GitRepository",
    "metadata": {"name": "fleet"},
    "spec": {
        "interval": "5m",
        "url": "https://example.com/fleet.git",
        "verify": {"secretRef": {"name": "keys"}},
    },
}
KUSTOMIZATION: dict[str, Any] = {
    "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
    "kind": "Kustomization",
    "metadata": {"name": "apps"},
    "spec": {
        "interval": "10m",
        "prune": True,
        "sourceRef": {"kind": "GitRepository", "name": "fleet"},
        "sourceRefs": [{"kind": "Bucket", "name": "b", "path": "vendor/b"}],
        "postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "vars"}]},
        "validation": "client",
        "patchesStrategicMerge": [{"kind": "ConfigMap", "data": {"nested": {"any": [1, None]}}}],
        "patchesJson6902": [
            {
                "patch": [{"op": "add", "path": "/data/a", "value": {"b": [1, "two"]}}],
                "target": {"kind": "ConfigMap"},
            }
        ],
    },
}
BOTH = pytest.mark.parametrize(
    "document", [GIT_REPOSITORY, KUSTOMIZATION], ids=["source", "applier"]
)


def test_a_repository_gets_only_the_promised_defaults(objects: Objects) -> None:
    spec = objects.apply(GIT_REPOSITORY)["spec"]

    assert spec == GIT_REPOSITORY["spec"] | {
        "timeout": "60s",
        "verify": {"mode": "HEAD", "secretRef": {"name": "keys"}},
    }


def test_a_kustomization_gets_only_the_promised_defaults(objects: Objects) -> None:
    spec = objects.apply(KUSTOMIZATION)["spec"]

    assert spec == KUSTOMIZATION["spec"] | {
        "force": False,
        "postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "vars", "optional": False}]},
    }


@pytest.mark.parametrize(
    ("kind", "spec", "defaults"),
    [
        (
            "OCIRepository",
            {"interval": "5m", "url": "oci://r/i", "layerSelector": {}, "verify": {}},
            {"timeout": "60s", "provider": "generic", "verify": {"provider": "cosign"}},
        ),
        (
            "Bucket",
            {"interval": "5m", "endpoint": "e", "bucketName": "b"},
            {"timeout": "60s", "provider": "generic"},
        ),
        ("HelmRepository", {"url": "https://c"}, {"provider": "generic"}),
        (
            "HelmChart",
            {"interval": "5m", "chart": "c", "sourceRef": {"kind": "Bucket", "name": "b"}},
            {"version": "*", "reconcileStrategy": "ChartVersion"},
        ),
        ("ExternalArtifact", {}, {}),
        (
            "ArtifactGenerator",
            {
                "sources": [{"alias": "a", "kind": "Bucket", "name": "b"}],
                "artifacts": [{"name": "o", "copy": [{"from": "@a/x", "to": "@artifact/"}]}],
            },
            {},
        ),
    ],
)
def test_a_source_gets_only_the_promised_defaults(
    objects: Objects, kind: str, spec: dict[str, Any], defaults: dict[str, Any]
) -> None:
    (row,) = [each for each in crds.KINDS if each.kind == kind]

    found = objects.apply(
        {"apiVersion": row.api_version, "kind": kind, "metadata": {"name": "new"}, "spec": spec}
    )

    unseen = kind in ("ExternalArtifact", "ArtifactGenerator")
    assert found["spec"] == spec | defaults
    assert found.get("status") == (None if unseen else {"observedGeneration": -1})
    assert msgspec.convert(found, row.model) is not None


@BOTH
def test_a_new_object_is_not_yet_seen(objects: Objects, document: dict[str, Any]) -> None:
    assert objects.apply(document)["status"] == {"observedGeneration": -1}


@BOTH
def test_applying_again_writes_nothing_once_a_controller_has_seen_the_object(
    objects: Objects, document: dict[str, Any]
) -> None:
    objects.apply(document)
    objects.patch_status(document, {"observedGeneration": 1})

    first = objects.apply(document)
    second = objects.apply(document)

    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert second == first


@BOTH
def test_applying_a_new_object_again_writes_its_default_status_and_then_nothing(
    objects: Objects, document: dict[str, Any]
) -> None:
    created, settled, again = (
        objects.apply(document),
        objects.apply(document),
        objects.apply(document),
    )

    assert again["metadata"]["resourceVersion"] == settled["metadata"]["resourceVersion"]
    assert again["metadata"]["generation"] == created["metadata"]["generation"]


@BOTH
def test_a_status_write_leaves_the_generation_alone(
    objects: Objects, document: dict[str, Any]
) -> None:
    before = objects.apply(document)["metadata"]["generation"]

    objects.patch_status(document, {"observedGeneration": before})

    after = objects.get(document)
    assert after["metadata"]["generation"] == before
    assert after["status"]["observedGeneration"] == before


def test_a_stored_repository_reads_as_its_model(objects: Objects) -> None:
    raw = json.dumps(objects.apply(GIT_REPOSITORY)).encode()

    repository = msgspec.json.decode(raw, type=source.GitRepository)

    assert repository.metadata.name == "fleet"
    assert repository.metadata.uid
    assert repository.spec.timeout_seconds == 60
    assert repository.status.observed_generation == -1


def test_a_stored_kustomization_reads_as_its_model(objects: Objects) -> None:
    document = objects.apply(KUSTOMIZATION)

    kustomization = msgspec.json.decode(json.dumps(document).encode(), type=kustomize.Kustomization)

    assert list(kustomization.spec.mounts) == ["", "vendor/b"]
    encoded = msgspec.to_builtins(kustomization)
    assert (
        encoded["spec"]["patchesStrategicMerge"] == KUSTOMIZATION["spec"]["patchesStrategicMerge"]
    )
    assert encoded["spec"]["patchesJson6902"] == KUSTOMIZATION["spec"]["patchesJson6902"]


def test_two_appliers_can_each_own_a_mounted_source(objects: Objects) -> None:
    objects.apply(KUSTOMIZATION)
    addition = {
        **{key: KUSTOMIZATION[key] for key in ("apiVersion", "kind", "metadata")},
        "spec": {
            "interval": "10m",
            "prune": True,
            "sourceRefs": [{"kind": "Bucket", "name": "c", "path": "vendor/c"}],
        },
    }

    objects.apply(addition, manager="other")

    live = objects.get(addition)
    assert [each["path"] for each in live["spec"]["sourceRefs"]] == ["vendor/b", "vendor/c"]
