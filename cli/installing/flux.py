"""The parts of Flux in a cluster, by the names and labels of its manifests.

Its controllers are Deployments with the label ``app.kubernetes.io/part-of: flux``; those of
Penstock have it too, with another ``app.kubernetes.io/instance``. Each controller reconciles the
kinds of its row. Penstock can replace it if it supports all of them.
"""

from collections.abc import Mapping
from typing import Final

from crds import KINDS
from toolkit.objects import Json, dig, key_of

SELECTOR: Final = "app.kubernetes.io/part-of=flux"
NAMESPACE: Final = "flux-system"
CONTROLLERS: Final[Mapping[str, tuple[str, ...]]] = {
    # name of the Deployment and value of its component label: the kinds that it reconciles
    "source-controller": (
        "GitRepository",
        "OCIRepository",
        "Bucket",
        "HelmRepository",
        "HelmChart",
    ),
    "source-watcher": ("ArtifactGenerator",),
    "kustomize-controller": ("Kustomization",),
    "helm-controller": ("HelmRelease",),
    "notification-controller": ("Alert", "Provider", "Receiver"),
    "image-reflector-controller": ("ImageRepository", "ImagePolicy"),
    "image-automation-controller": ("ImageUpdateAutomation",),
}
_INSTANCE: Final = "app.kubernetes.io/instance"
_COMPONENT: Final = "app.kubernetes.io/component"
_OURS: Final = "penstock-system"
_KNOWN: Final = frozenset(kind.kind for kind in KINDS)


def is_ours(obj: Json) -> bool:
    """Tell whether an object is a part of Penstock, in whichever namespace that is."""
    return bool(dig(obj, "metadata", "labels", default={}).get(_INSTANCE) == _OURS)


def component(deployment: Json) -> str:
    """Return the controller that a Deployment runs; its own name if it is none of them.

    Deployments of shards are named after the controller, with a suffix.
    """
    name = key_of(deployment).name
    said = str(dig(deployment, "metadata", "labels", default={}).get(_COMPONENT, name))
    fitting = (each for each in CONTROLLERS if said == each or name.startswith(each))
    return next(fitting, said)


def is_replaced(controller: str) -> bool:
    """Tell whether Penstock reconciles all kinds of a controller; of an unknown one, that it may.

    Two controllers of one kind undo each other's work, so an unknown one counts as replaced.
    """
    return _KNOWN.issuperset(CONTROLLERS.get(controller, ()))


def competes(deployment: Json) -> bool:
    """Tell whether a Deployment, of Flux or of Penstock, runs and reconciles our kinds."""
    running = bool(dig(deployment, "spec", "replicas", default=1))
    return running and is_replaced(component(deployment))
