"""Authenticate at a cloud provider without a password: as this process, or as a ServiceAccount.

A token of the platform about a workload is exchanged at the cloud for credentials that live for
minutes. The requests are plain HTTP, without the SDKs of the clouds. Open ``cloud`` first.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from toolkit.remote.cloud.aws import Aws
from toolkit.remote.cloud.azure import Azure
from toolkit.remote.cloud.gcp import Gcp
from toolkit.remote.cloud.provider import Provider
from toolkit.remote.cloud.services import Services

PROVIDERS: Final[Mapping[str, Callable[[Services], Provider]]] = MappingProxyType(
    {
        # ECR, S3, CodeCommit, EKS
        "aws": Aws,
        # Container Registry, Blob Storage, DevOps, AKS
        "azure": Azure,
        # Artifact Registry, Cloud Storage, GKE
        "gcp": Gcp,
    }
)
