"""Whether a Deployment of the installation is ready.

The rule is kstatus, except for the source controller. With a local store, only its leader serves
artifacts and becomes ready, so that the Service leads to no other replica: a second replica stays
unready until it takes over, and the Deployment is never available.
"""

from typing import Final

from toolkit.apply import health
from toolkit.apply.health import Health, Status
from toolkit.objects import Json, dig

_LED: Final = "source-controller"
"""The component whose leader alone becomes ready; shards have the label too."""


def assess(deployment: Json) -> Health:
    """Judge a live Deployment; of a source controller, one ready replica of this version is enough.

    Only where that version has replaced the older one (``docs/install.md``).
    """
    if dig(deployment, "metadata", "labels", "app.kubernetes.io/component") != _LED:
        return health.assess(deployment)
    status = dig(deployment, "status", default={})
    wanted = dig(deployment, "spec", "replicas", default=1)
    current = status.get("observedGeneration") == dig(deployment, "metadata", "generation")
    replaced = status.get("replicas") == status.get("updatedReplicas") == wanted
    if current and replaced and status.get("readyReplicas", 0) > 0:
        return Health(Status.CURRENT, "The leader is ready")
    return health.assess(deployment)
