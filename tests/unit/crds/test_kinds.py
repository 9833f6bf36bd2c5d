"""The fields of the served versions, written out once more by hand from Flux's API."""

from collections.abc import Iterator

import pytest
from msgspec import Struct
from msgspec import structs as structure

import crds
from crds import schema

EXPECTED = {
    "GitRepository.spec": (
        "ignore include interval provider proxySecretRef recurseSubmodules ref secretRef "
        "serviceAccountName sparseCheckout suspend timeout url verify"
    ),
    "GitRepository.spec.ref": "branch commit name semver tag",
    "GitRepository.spec.verify": "mode secretRef",
    "GitRepository.spec.include": "fromPath repository toPath",
    "GitRepository.status": (
        "artifact conditions includedArtifacts lastHandledReconcileAt observedGeneration "
        "observedIgnore observedInclude observedRecurseSubmodules observedSparseCheckout "
        "sourceVerificationMode"
    ),
    "GitRepository.status.artifact": "digest lastUpdateTime metadata path revision size url",
    "Kustomization.spec": (
        "buildMetadata commonMetadata components decryption deletionPolicy dependsOn force "
        "healthCheckExprs healthChecks ignore ignoreMissingComponents images interval kubeConfig "
        "namePrefix nameSuffix patches patchesJson6902 patchesStrategicMerge path postBuild prune "
        "retryInterval serviceAccountName sourceRef sourceRefs suspend targetNamespace timeout "
        "validation wait"
    ),
    "Kustomization.spec.sourceRef": "apiVersion kind name namespace",
    "Kustomization.spec.sourceRefs": "apiVersion kind name namespace path",
    "Kustomization.spec.dependsOn": "name namespace readyExpr",
    "Kustomization.spec.patches": "patch target",
    "Kustomization.spec.patches.target": (
        "annotationSelector group kind labelSelector name namespace version"
    ),
    "Kustomization.spec.images": "digest name newName newTag",
    "Kustomization.spec.commonMetadata": "annotations labels",
    "Kustomization.spec.decryption": "provider secretRef serviceAccountName",
    "Kustomization.spec.kubeConfig": "configMapRef secretRef",
    "Kustomization.spec.kubeConfig.secretRef": "key name",
    "Kustomization.spec.postBuild": "substitute substituteFrom substituteStrategy",
    "Kustomization.spec.postBuild.substituteFrom": "kind name optional",
    "Kustomization.spec.healthChecks": "apiVersion kind name namespace",
    "Kustomization.spec.healthCheckExprs": "apiVersion current failed inProgress kind",
    "Kustomization.spec.ignore": "paths target",
    "Kustomization.status": (
        "conditions history inventory lastAppliedOriginRevision lastAppliedRevision "
        "lastAttemptedRevision lastHandledReconcileAt observedGeneration"
    ),
    "Kustomization.status.conditions": (
        "lastTransitionTime message observedGeneration reason status type"
    ),
    "Kustomization.status.inventory.entries": "id v",
    "Kustomization.status.history": (
        "digest firstReconciled lastReconciled lastReconciledDuration lastReconciledStatus "
        "metadata totalReconciliations"
    ),
}


def structs(path: str, node: schema.Schema) -> Iterator[tuple[str, str]]:
    inner = node.get("items") or node
    if "properties" in inner:
        yield path, " ".join(sorted(inner["properties"]))
        for name, child in inner["properties"].items():
            yield from structs(f"{path}.{name}", child)


FOUND = {
    path: fields
    for kind in crds.KINDS
    for path, fields in structs(kind.kind, schema.schema_of(kind.model))
}


@pytest.mark.parametrize("path", EXPECTED)
def test_a_struct_has_exactly_its_fields(path: str) -> None:
    assert FOUND[path] == EXPECTED[path]


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.kind)
def test_a_model_says_the_version_that_it_is_listed_with(kind: crds.Kind[Struct]) -> None:
    listed = {kind.version: kind.model} | {old.version: old.model for old in kind.older}

    for version, model in listed.items():
        properties = {f.encode_name: f.default for f in structure.fields(model)}
        assert properties["apiVersion"] == f"{kind.group}/{version}"
        assert properties["kind"] == kind.kind
