"""Keys under which workers cache the discovery and the version of an API server.

With these keys a worker sends discovery requests once per state of an API server, and not for each
release. On the controller's own cluster, a new state begins when a CustomResourceDefinition or an
APIService, of which each version of a group has one, is created or deleted. On other clusters, a
state lasts five minutes. If a kind is missing, the worker always asks again.
"""

import time
from collections.abc import Callable
from typing import Final

from controllers.applying.clusters import Cluster
from toolkit.kube.informer import Change, Informer
from toolkit.kube.manager import Manager
from toolkit.objects import GroupVersionKind

DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
SERVICE: Final = GroupVersionKind("apiregistration.k8s.io", "v1", "APIService")
_LASTING_SECONDS: Final = 300.0


class Serving:
    """Counts the states of the controller's own cluster."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._states = 0

    def changed(self, change: Change[bool]) -> None:
        """Handle an event of the watches of CustomResourceDefinitions and APIServices."""
        if change.old is None or change.new is None:
            self._states += 1

    def name(self, cluster: Cluster) -> str:
        """Return the key for the current state of a cluster's API server."""
        state = self._states
        if cluster.number:  # 0 is the controller's own cluster
            state = int(self._monotonic() // _LASTING_SECONDS)
        return f"{cluster.number}/{state}"


def follow(manager: Manager) -> Serving:
    """Return the keys, updated by informers that the manager runs."""
    serving = Serving()
    for kind in (DEFINITION, SERVICE):
        informer: Informer[bool] = Informer(
            manager.client, kind, decode=lambda _: True, metadata_only=True
        )
        informer.subscribe(serving.changed)
        manager.add_informer(informer)
    return serving
