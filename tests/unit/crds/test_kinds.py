"""The fields of the served versions, written out once more by hand from Flux's API."""

from collections.abc import Iterator

import pytest
from msgspec import Struct
from msgspec import structs as structure

import crds
from crds import schema

PARTS = ("spec", "status")
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
    "OCIRepository.spec": (
        "certSecretRef ignore insecure interval layerSelector provider proxySecretRef ref "
        "secretRef serviceAccountName suspend timeout url verify"
    ),
    "OCIRepository.spec.ref": "digest semver semverFilter tag",
    "OCIRepository.spec.layerSelector": "mediaType operation",
    "OCIRepository.spec.verify": "matchOIDCIdentity provider secretRef trustedRootSecretRef",
    "OCIRepository.spec.verify.matchOIDCIdentity": "issuer subject",
    "OCIRepository.status": (
        "artifact conditions lastHandledReconcileAt observedGeneration observedIgnore "
        "observedLayerSelector url"
    ),
    "Bucket.spec": (
        "accessFrom bucketName certSecretRef endpoint ignore insecure interval prefix provider "
        "proxySecretRef region secretRef serviceAccountName sts suspend timeout"
    ),
    "Bucket.spec.sts": "certSecretRef endpoint provider secretRef",
    "Bucket.status": (
        "artifact conditions lastHandledReconcileAt observedGeneration observedIgnore url"
    ),
    "HelmRepository.spec": (
        "accessFrom certSecretRef insecure interval passCredentials provider secretRef suspend "
        "timeout type url"
    ),
    "Bucket.spec.accessFrom": "namespaceSelectors",
    "Bucket.spec.accessFrom.namespaceSelectors": "matchLabels",
    "HelmRepository.spec.accessFrom": "namespaceSelectors",
    "HelmRepository.spec.accessFrom.namespaceSelectors": "matchLabels",
    "HelmRepository.status": "artifact conditions lastHandledReconcileAt observedGeneration url",
    "HelmChart.spec": (
        "chart ignoreMissingValuesFiles interval reconcileStrategy sourceRef suspend valuesFile "
        "valuesFiles "
        "verify version"
    ),
    "HelmChart.spec.sourceRef": "apiVersion kind name",
    "HelmChart.status": (
        "artifact conditions lastHandledReconcileAt observedChartName observedGeneration "
        "observedSourceArtifactRevision observedValuesFiles url"
    ),
    "ExternalArtifact.spec": "sourceRef",
    "ExternalArtifact.spec.sourceRef": "apiVersion kind name namespace",
    "ExternalArtifact.status": "artifact conditions",
    "ArtifactGenerator.spec": "artifacts commonMetadata pathPattern sources",
    "ArtifactGenerator.spec.sources": "alias kind name namespace",
    "ArtifactGenerator.spec.artifacts": "copy name originRevision revision",
    "ArtifactGenerator.spec.artifacts.copy": "exclude from strategy to",
    "ArtifactGenerator.spec.commonMetadata": "annotations labels",
    "ArtifactGenerator.status": (
        "conditions inventory lastHandledReconcileAt observedGeneration observedSourcesDigest"
    ),
    "ArtifactGenerator.status.inventory": "digest filename name namespace",
    "Kustomization.spec": (
        "buildMetadata commonMetadata components decryption deletionPolicy dependsOn force "
        "healthCheckExprs healthChecks ignore ignoreMissingComponents images interval kubeConfig "
        "namePrefix nameSuffix patches patchesJson6902 patchesStrategicMerge path postBuild prune "
        "retryInterval serviceAccountName sourceRef sourceRefs suspend targetNamespace timeout "
        "validation wait"
    ),
    "Kustomization.spec.sourceRef": "apiVersion kind name namespace",
    "Kustomization.spec.sourceRefs": "apiVersion kind name namespace path",
    "Kustomization.spec.dependsOn": "kind name namespace readyExpr",
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
    "HelmRelease.spec": (
        "chart chartRef commonMetadata decryption dependsOn driftDetection healthCheckExprs "
        "install interval kubeConfig maxHistory persistentClient postRenderStrategy postRenderers "
        "releaseName rollback serviceAccountName storageNamespace suspend targetNamespace test "
        "timeout uninstall upgrade values valuesFrom waitStrategy"
    ),
    "HelmRelease.spec.chart": "metadata spec",
    "HelmRelease.spec.chart.metadata": "annotations labels",
    "HelmRelease.spec.chart.spec": (
        "chart ignoreMissingValuesFiles interval reconcileStrategy sourceRef valuesFile "
        "valuesFiles verify version"
    ),
    "HelmRelease.spec.chart.spec.sourceRef": "apiVersion kind name namespace",
    "HelmRelease.spec.chart.spec.verify": "provider secretRef",
    "HelmRelease.spec.chartRef": "apiVersion kind name namespace",
    "HelmRelease.spec.dependsOn": "kind name namespace readyExpr",
    "HelmRelease.spec.driftDetection": "ignore mode",
    "HelmRelease.spec.driftDetection.ignore": "paths target",
    "HelmRelease.spec.healthCheckExprs": "apiVersion current failed inProgress kind",
    "HelmRelease.spec.install": (
        "crds createNamespace disableHooks disableOpenAPIValidation disableSchemaValidation "
        "disableTakeOwnership disableWait disableWaitForJobs remediation replace serverSideApply "
        "skipCRDs strategy timeout"
    ),
    "HelmRelease.spec.install.remediation": "ignoreTestFailures remediateLastFailure retries",
    "HelmRelease.spec.install.strategy": "name retryInterval",
    "HelmRelease.spec.upgrade": (
        "chartNameChangeStrategy cleanupOnFail crds disableHooks disableOpenAPIValidation "
        "disableSchemaValidation disableTakeOwnership disableWait disableWaitForJobs force "
        "preserveValues remediation serverSideApply strategy timeout"
    ),
    "HelmRelease.spec.upgrade.remediation": (
        "ignoreTestFailures remediateLastFailure retries strategy"
    ),
    "HelmRelease.spec.upgrade.strategy": "name retryInterval",
    "HelmRelease.spec.test": "enable filters ignoreFailures timeout",
    "HelmRelease.spec.test.filters": "exclude name",
    "HelmRelease.spec.rollback": (
        "cleanupOnFail disableHooks disableWait disableWaitForJobs force recreate serverSideApply "
        "timeout"
    ),
    "HelmRelease.spec.uninstall": (
        "deletionPropagation disableHooks disableWait keepHistory timeout"
    ),
    "HelmRelease.spec.valuesFrom": "kind literal name optional targetPath valuesKey",
    "HelmRelease.spec.postRenderers": "kustomize",
    "HelmRelease.spec.postRenderers.kustomize": (
        "images patches patchesJson6902 patchesStrategicMerge"
    ),
    "HelmRelease.spec.waitStrategy": "name",
    "HelmRelease.status": (
        "conditions failures helmChart history installFailures inventory lastAppliedRevision "
        "lastAttemptedConfigDigest lastAttemptedGeneration lastAttemptedReleaseAction "
        "lastAttemptedReleaseActionDuration lastAttemptedRevision lastAttemptedRevisionDigest "
        "lastAttemptedValuesChecksum lastHandledForceAt lastHandledReconcileAt lastHandledResetAt "
        "lastReleaseRevision observedCommonMetadataDigest observedGeneration "
        "observedPostRenderersDigest storageNamespace upgradeFailures"
    ),
    "HelmRelease.status.history": (
        "action apiVersion appVersion chartName chartVersion configDigest deleted digest "
        "firstDeployed lastDeployed name namespace ociDigest status testHooks version"
    ),
    "HelmRelease.status.inventory.entries": "id v",
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
    for path, fields in structs(kind.kind, schema.annotated(kind.model))
}


OLDER = {
    ("OCIRepository", "v1beta2"): (set(), set(), {"contentConfigChecksum"}, set()),
    ("Bucket", "v1beta2"): (set(), set(), set(), set()),
    ("Bucket", "v1beta1"): (
        set(),
        {"certSecretRef", "prefix", "proxySecretRef", "serviceAccountName", "sts"},
        set(),
        {"observedIgnore"},
    ),
    ("HelmRepository", "v1beta2"): (set(), set(), set(), set()),
    ("HelmRepository", "v1beta1"): (
        set(),
        {"certSecretRef", "insecure", "provider", "type"},
        set(),
        set(),
    ),
    ("HelmChart", "v1beta2"): ({"accessFrom"}, set(), set(), set()),
    ("HelmChart", "v1beta1"): (
        {"accessFrom"},
        {"ignoreMissingValuesFiles", "verify"},
        set(),
        {"observedChartName", "observedSourceArtifactRevision", "observedValuesFiles"},
    ),
    ("HelmRelease", "v2beta2"): (
        set(),
        {
            *("commonMetadata", "decryption", "healthCheckExprs", "postRenderStrategy"),
            "waitStrategy",
        },
        set(),
        {
            *("inventory", "lastAttemptedReleaseActionDuration"),
            *("observedCommonMetadataDigest", "observedPostRenderersDigest"),
        },
    ),
    ("HelmRelease", "v2beta1"): (
        set(),
        {
            *("chartRef", "commonMetadata", "decryption", "healthCheckExprs"),
            *("postRenderStrategy", "waitStrategy"),
        },
        set(),
        {
            *("inventory", "lastAttemptedReleaseActionDuration"),
            *("observedCommonMetadataDigest", "observedPostRenderersDigest"),
        },
    ),
}
"""Fields of the spec that only it has, that only v1 has; then the same of the status."""


@pytest.mark.parametrize(("kind", "version"), OLDER)
def test_an_older_version_differs_by_exactly_its_fields(kind: str, version: str) -> None:
    (row,) = [each for each in crds.KINDS if each.kind == kind]
    (old,) = [each for each in row.older if each.version == version]

    here, newest = (
        [set(schema.annotated(model)["properties"][part]["properties"]) for part in PARTS]
        for model in (old.model, row.model)
    )

    found = [difference for a, b in zip(here, newest, strict=True) for difference in (a - b, b - a)]
    assert tuple(found) == OLDER[kind, version]


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


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("GitRepository", "URL Age Ready Status"),
        ("OCIRepository", "URL Ready Status Age"),
        ("Bucket", "Endpoint Age Ready Status"),
        ("HelmRepository", "URL Age Ready Status"),
        ("HelmChart", "Chart Version Source-Kind Source-Name Age Ready Status"),
        ("ExternalArtifact", "Age Ready Status Source"),
        ("ArtifactGenerator", "Age Ready Status"),
    ],
)
def test_a_source_is_listed_with_the_columns_that_users_know(kind: str, columns: str) -> None:
    (row,) = [each for each in crds.KINDS if each.kind == kind]

    assert [column.name.replace(" ", "-") for column in row.columns] == columns.split()
    assert row.categories == ("all", "fluxcd", "fluxcd-sources")
