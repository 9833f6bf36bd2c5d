"""The interface of a cloud provider for ``spec.provider``."""

from typing import Protocol

from toolkit.remote.cloud.identity import (
    Bearer,
    BucketPlace,
    ClusterAccess,
    ClusterName,
    Identity,
    Login,
    SessionKeys,
)
from toolkit.remote.proxy import Proxy


class Provider(Protocol):
    """Issues credentials for registries, buckets, repositories and clusters.

    All methods raise CloudError if the cloud issues none, and ForeignHostError if the named host is
    not the provider's.
    """

    async def registry(self, host: str, who: Identity | None, proxy: Proxy | None) -> Login:
        """Return a login for a container registry."""
        ...

    async def bucket(
        self, place: BucketPlace, who: Identity | None, proxy: Proxy | None
    ) -> SessionKeys | Bearer:
        """Return credentials for an object store."""
        ...

    async def git(self, url: str, who: Identity | None, proxy: Proxy | None) -> Login | Bearer:
        """Return credentials for a Git repository."""
        ...

    async def cluster(
        self, named: ClusterName, who: Identity | None, proxy: Proxy | None
    ) -> ClusterAccess:
        """Return the access to a cluster."""
        ...
