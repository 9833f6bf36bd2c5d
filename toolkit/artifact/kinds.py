"""The kinds whose objects have artifacts, by the name that they have in paths of the store."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from crds import (
    BUCKET,
    EXTERNAL_ARTIFACT,
    GIT_REPOSITORY,
    HELM_CHART,
    HELM_REPOSITORY,
    OCI_REPOSITORY,
)
from crds.kind import Kind

KINDS: Final[Mapping[str, Kind[Any]]] = MappingProxyType(
    {
        kind.kind.lower(): kind
        for kind in (
            BUCKET,
            EXTERNAL_ARTIFACT,
            GIT_REPOSITORY,
            HELM_CHART,
            HELM_REPOSITORY,
            OCI_REPOSITORY,
        )
    }
)
