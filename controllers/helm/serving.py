"""Name what an API server serves at present: workers remember discovery by that name.

So discovery and versions are asked for once a worker and state of the API server, and not for each
release. On the cluster that we run on, a definition that comes or goes makes another state. Of
other clusters a state lasts some minutes; a kind that is missing is looked for again in any case.
"""

import time
from collections.abc import Callable
from typing import Final

from controllers.applying.clusters import Cluster
from toolkit.kube.informer import Change, Informer
from toolkit.kube.manager import Manager
from toolkit.objects import GroupVersionKind

DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
_LASTING_SECONDS: Final = 300.0


class Serving:
    """Counts the states of the cluster that we run on."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._states = 0

    def changed(self, change: Change[bool]) -> None:
        """Take an event of the watch of definitions."""
        if change.old is None or change.new is None:
            self._states += 1

    def name(self, cluster: Cluster) -> str:
        """Return the name of what the API server of a cluster serves."""
        state = self._states
        if cluster.number:  # the first one is that we run on
            state = int(self._monotonic() // _LASTING_SECONDS)
        return f"{cluster.number}/{state}"


def follow(manager: Manager) -> Serving:
    """Return the names, kept by an informer of the manager's."""
    serving = Serving()
    informer: Informer[bool] = Informer(
        manager.client, DEFINITION, decode=lambda _: True, metadata_only=True
    )
    informer.subscribe(serving.changed)
    manager.add_informer(informer)
    return serving
