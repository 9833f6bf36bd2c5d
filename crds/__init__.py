"""API types: what users write, one module per API group; CRDs are generated from them."""

from typing import Final

from msgspec import Struct

from crds import (
    extensions,
    helm,
    helm_v2beta1,
    helm_v2beta2,
    image,
    image_automation,
    image_v1beta1,
    image_v1beta2,
    kustomize,
    kustomize_v1beta1,
    kustomize_v1beta2,
    notification,
    notification_receiver,
    notification_receiver_v1beta1,
    notification_receiver_v1beta2,
    notification_v1beta1,
    notification_v1beta2,
    notification_v1beta3,
    policy_image,
    policy_provenance,
    policy_referencegrant,
    policy_source,
    source,
    source_bucket,
    source_bucket_v1beta1,
    source_bucket_v1beta2,
    source_external,
    source_helm,
    source_helm_v1beta1,
    source_helm_v1beta2,
    source_oci,
    source_oci_v1beta2,
    source_v1beta1,
    source_v1beta2,
)
from crds.kind import Column, Kind, OldVersion

_READY: Final = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
_STATUS: Final = Column("Status", '.status.conditions[?(@.type=="Ready")].message')
_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")
_DELIVERING: Final = '.status.conditions[?(@.type=="Delivering")].status'
_URL: Final = Column("URL", ".spec.url")
_SOURCES: Final = ("all", "fluxcd", "fluxcd-sources")
_NOTIFICATIONS: Final = ("all", "fluxcd", "fluxcd-notifications")
_IMAGES: Final = ("all", "fluxcd", "fluxcd-images")

GIT_REPOSITORY: Final = Kind(
    model=source.GitRepository,
    group=source.GROUP,
    version="v1",
    kind="GitRepository",
    plural="gitrepositories",
    singular="gitrepository",
    short_names=("gitrepo",),
    categories=_SOURCES,
    columns=(_URL, _AGE, _READY, _STATUS),
    component="source-controller",
    has_artifact=True,
    older=(
        OldVersion("v1beta2", source_v1beta2.GitRepository),
        OldVersion("v1beta1", source_v1beta1.GitRepository, source_v1beta1.CHANGES),
    ),
)
OCI_REPOSITORY: Final = Kind(
    model=source_oci.OCIRepository,
    group=source.GROUP,
    version="v1",
    kind="OCIRepository",
    plural="ocirepositories",
    singular="ocirepository",
    short_names=("ocirepo",),
    categories=_SOURCES,
    columns=(_URL, _READY, _STATUS, _AGE),
    component="source-controller",
    has_artifact=True,
    older=(OldVersion("v1beta2", source_oci_v1beta2.OCIRepository),),
)
BUCKET: Final = Kind(
    model=source_bucket.Bucket,
    group=source.GROUP,
    version="v1",
    kind="Bucket",
    plural="buckets",
    singular="bucket",
    short_names=(),
    categories=_SOURCES,
    columns=(Column("Endpoint", ".spec.endpoint"), _AGE, _READY, _STATUS),
    component="source-controller",
    has_artifact=True,
    older=(
        OldVersion("v1beta2", source_bucket_v1beta2.Bucket),
        OldVersion("v1beta1", source_bucket_v1beta1.Bucket, source_bucket_v1beta1.CHANGES),
    ),
)
HELM_REPOSITORY: Final = Kind(
    model=source_helm.HelmRepository,
    group=source.GROUP,
    version="v1",
    kind="HelmRepository",
    plural="helmrepositories",
    singular="helmrepository",
    short_names=("helmrepo",),
    categories=_SOURCES,
    columns=(_URL, _AGE, _READY, _STATUS),
    component="source-controller",
    has_artifact=True,
    older=(
        OldVersion("v1beta2", source_helm_v1beta2.HelmRepository),
        OldVersion(
            "v1beta1",
            source_helm_v1beta1.HelmRepository,
            source_helm_v1beta1.REPOSITORY_CHANGES,
        ),
    ),
)
HELM_CHART: Final = Kind(
    model=source_helm.HelmChart,
    group=source.GROUP,
    version="v1",
    kind="HelmChart",
    plural="helmcharts",
    singular="helmchart",
    short_names=("hc",),
    categories=_SOURCES,
    columns=(
        Column("Chart", ".spec.chart"),
        Column("Version", ".spec.version"),
        Column("Source Kind", ".spec.sourceRef.kind"),
        Column("Source Name", ".spec.sourceRef.name"),
        _AGE,
        _READY,
        _STATUS,
    ),
    component="source-controller",
    has_artifact=True,
    older=(
        OldVersion("v1beta2", source_helm_v1beta2.HelmChart),
        OldVersion("v1beta1", source_helm_v1beta1.HelmChart),
    ),
)
EXTERNAL_ARTIFACT: Final = Kind(
    model=source_external.ExternalArtifact,
    group=source.GROUP,
    version="v1",
    kind="ExternalArtifact",
    plural="externalartifacts",
    singular="externalartifact",
    short_names=("ea",),
    categories=_SOURCES,
    columns=(_AGE, _READY, _STATUS, Column("Source", ".spec.sourceRef.name")),
    component="source-controller",
    has_artifact=True,
)
ARTIFACT_GENERATOR: Final = Kind(
    model=extensions.ArtifactGenerator,
    group=extensions.GROUP,
    version="v1beta1",
    kind="ArtifactGenerator",
    plural="artifactgenerators",
    singular="artifactgenerator",
    short_names=("ag",),
    categories=_SOURCES,
    columns=(_AGE, _READY, _STATUS),
    component="source-watcher",
    finalizer="source.extensions.fluxcd.io/finalizer",
)
KUSTOMIZATION: Final = Kind(
    model=kustomize.Kustomization,
    group=kustomize.GROUP,
    version="v1",
    kind="Kustomization",
    plural="kustomizations",
    singular="kustomization",
    short_names=("ks",),
    categories=("all", "fluxcd", "fluxcd-appliers"),
    columns=(_AGE, _READY, _STATUS),
    component="kustomize-controller",
    older=(
        OldVersion("v1beta2", kustomize_v1beta2.Kustomization),
        OldVersion("v1beta1", kustomize_v1beta1.Kustomization),
    ),
)
HELM_RELEASE: Final = Kind(
    model=helm.HelmRelease,
    group=helm.GROUP,
    version="v2",
    kind="HelmRelease",
    plural="helmreleases",
    singular="helmrelease",
    short_names=("hr",),
    categories=("all", "fluxcd", "fluxcd-appliers"),
    columns=(_AGE, _READY, _STATUS),
    component="helm-controller",
    older=(
        OldVersion("v2beta2", helm_v2beta2.HelmRelease),
        OldVersion("v2beta1", helm_v2beta1.HelmRelease),
    ),
)
PROVIDER: Final = Kind(
    model=notification.Provider,
    group=notification.GROUP,
    version="v1",
    kind="Provider",
    plural="providers",
    singular="provider",
    short_names=(),
    categories=_NOTIFICATIONS,
    columns=(_AGE, Column("Delivering", _DELIVERING, "string", 1)),
    component="notification-controller",
    older=(
        OldVersion("v1beta3", notification_v1beta3.Provider, current=True),
        OldVersion("v1beta2", notification_v1beta2.Provider),
        OldVersion("v1beta1", notification_v1beta1.Provider),
    ),
)
ALERT: Final = Kind(
    model=notification.Alert,
    group=notification.GROUP,
    version="v1",
    kind="Alert",
    plural="alerts",
    singular="alert",
    short_names=(),
    categories=_NOTIFICATIONS,
    columns=(_AGE,),
    component="notification-controller",
    older=(
        OldVersion("v1beta3", notification_v1beta3.Alert, current=True),
        OldVersion("v1beta2", notification_v1beta2.Alert),
        OldVersion("v1beta1", notification_v1beta1.Alert),
    ),
)
RECEIVER: Final = Kind(
    model=notification_receiver.Receiver,
    group=notification.GROUP,
    version="v1",
    kind="Receiver",
    plural="receivers",
    singular="receiver",
    short_names=(),
    categories=_NOTIFICATIONS,
    columns=(_AGE, _READY, _STATUS),
    component="notification-controller",
    older=(
        OldVersion("v1beta2", notification_receiver_v1beta2.Receiver),
        OldVersion("v1beta1", notification_receiver_v1beta1.Receiver),
    ),
)
IMAGE_REPOSITORY: Final = Kind(
    model=image.ImageRepository,
    group=image.GROUP,
    version="v1",
    kind="ImageRepository",
    plural="imagerepositories",
    singular="imagerepository",
    short_names=("imgrepo", "imagerepo"),
    categories=_IMAGES,
    columns=(
        Column("Image", ".spec.image"),
        Column("Tags", ".status.lastScanResult.tagCount"),
        _READY,
        _STATUS,
        Column("Last scan", ".status.lastScanResult.scanTime", "string", 1),
        _AGE,
    ),
    component="image-reflector-controller",
    older=(
        OldVersion("v1beta2", image_v1beta2.ImageRepository),
        OldVersion("v1beta1", image_v1beta1.ImageRepository),
    ),
)
IMAGE_POLICY: Final = Kind(
    model=image.ImagePolicy,
    group=image.GROUP,
    version="v1",
    kind="ImagePolicy",
    plural="imagepolicies",
    singular="imagepolicy",
    short_names=("imgpol", "imagepol"),
    categories=_IMAGES,
    columns=(
        Column("Image", ".status.latestRef.name"),
        Column("Tag", ".status.latestRef.tag"),
        _READY,
        _STATUS,
        _AGE,
    ),
    component="image-reflector-controller",
    older=(
        OldVersion("v1beta2", image_v1beta2.ImagePolicy),
        OldVersion("v1beta1", image_v1beta1.ImagePolicy),
    ),
)
IMAGE_UPDATE_AUTOMATION: Final = Kind(
    model=image_automation.ImageUpdateAutomation,
    group=image.GROUP,
    version="v1",
    kind="ImageUpdateAutomation",
    plural="imageupdateautomations",
    singular="imageupdateautomation",
    short_names=("iua", "imgupd", "imgauto"),
    categories=_IMAGES,
    columns=(
        _READY,
        _STATUS,
        Column("Last run", ".status.lastAutomationRunTime", "string", 1),
        _AGE,
    ),
    component="image-automation-controller",
    older=(
        OldVersion("v1beta2", image_v1beta2.ImageUpdateAutomation),
        OldVersion("v1beta1", image_v1beta1.ImageUpdateAutomation),
    ),
)
REFERENCE_GRANT: Final = Kind(
    model=policy_referencegrant.ReferenceGrant,
    group=policy_referencegrant.GROUP,
    version="v1alpha1",
    kind="ReferenceGrant",
    plural="referencegrants",
    singular="referencegrant",
    short_names=("refgrant",),
    categories=("penstock",),
    columns=(_AGE,),
    component="webhooks",
)
SOURCE_POLICY: Final = Kind(
    model=policy_source.SourcePolicy,
    group=policy_source.GROUP,
    version="v1alpha1",
    kind="SourcePolicy",
    plural="sourcepolicies",
    singular="sourcepolicy",
    short_names=(),
    categories=("penstock",),
    columns=(Column("Mode", ".spec.mode"), _AGE),
    component="webhooks",
    namespaced=False,
)
PROVENANCE_POLICY: Final = Kind(
    model=policy_provenance.ProvenancePolicy,
    group=policy_provenance.GROUP,
    version="v1alpha1",
    kind="ProvenancePolicy",
    plural="provenancepolicies",
    singular="provenancepolicy",
    short_names=(),
    categories=("penstock",),
    columns=(Column("Mode", ".spec.mode"), _AGE),
    component="webhooks",
    namespaced=False,
)
IMAGE_VERIFICATION_POLICY: Final = Kind(
    model=policy_image.ImageVerificationPolicy,
    group=policy_image.GROUP,
    version="v1alpha1",
    kind="ImageVerificationPolicy",
    plural="imageverificationpolicies",
    singular="imageverificationpolicy",
    short_names=("ivp",),
    categories=("penstock",),
    columns=(Column("Mode", ".spec.mode"), _AGE),
    component="webhooks",
    namespaced=False,
)

KINDS: Final[tuple[Kind[Struct], ...]] = (
    GIT_REPOSITORY,  # where manifests come from: Git,
    OCI_REPOSITORY,  # a container registry,
    BUCKET,  # object storage,
    HELM_REPOSITORY,  # charts: an index of them, or a registry,
    HELM_CHART,  # and one of them in one version
    EXTERNAL_ARTIFACT,  # what others made
    ARTIFACT_GENERATOR,  # makes those of the sources above
    KUSTOMIZATION,  # what to build from them and apply
    HELM_RELEASE,  # which chart to release from them
    PROVIDER,  # where events are sent
    ALERT,  # and which ones
    RECEIVER,  # where others announce changes
    IMAGE_REPOSITORY,  # which tags an image has
    IMAGE_POLICY,  # and which of them is meant
    IMAGE_UPDATE_AUTOMATION,  # which repositories it is written into
    REFERENCE_GRANT,  # who may refer to objects of a namespace
    SOURCE_POLICY,  # which sources may exist, and who must sign them
    PROVENANCE_POLICY,  # which namespaces admit only what came from a repository
    IMAGE_VERIFICATION_POLICY,  # which images must be signed, and by whom
)
