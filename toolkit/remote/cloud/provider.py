"""What a cloud must be able to do to become a ``spec.provider``."""

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
    """Gives credentials for the four things that objects name.

    All raise CloudError if the cloud gives none, and ForeignHostError if what is named is not one
    of its own.
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
        """Return how to enter a cluster."""
        ...
