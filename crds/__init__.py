"""API types: what users write, one module per API group; CRDs are generated from them."""

from typing import Final

from msgspec import Struct

from crds import (
    kustomize,
    kustomize_v1beta1,
    kustomize_v1beta2,
    source,
    source_v1beta1,
    source_v1beta2,
)
from crds.kind import Column, Kind, OldVersion

_READY: Final = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
_STATUS: Final = Column("Status", '.status.conditions[?(@.type=="Ready")].message')
_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")

GIT_REPOSITORY: Final = Kind(
    model=source.GitRepository,
    group=source.GROUP,
    version="v1",
    kind="GitRepository",
    plural="gitrepositories",
    singular="gitrepository",
    short_names=("gitrepo",),
    categories=("all", "fluxcd", "fluxcd-sources"),
    columns=(Column("URL", ".spec.url"), _AGE, _READY, _STATUS),
    component="source-controller",
    older=(
        OldVersion("v1beta2", source_v1beta2.GitRepository),
        OldVersion("v1beta1", source_v1beta1.GitRepository),
    ),
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

KINDS: Final[tuple[Kind[Struct], ...]] = (
    GIT_REPOSITORY,  # where manifests come from
    KUSTOMIZATION,  # what to build from them and apply
)
