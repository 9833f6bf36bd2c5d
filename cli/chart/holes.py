"""Places in templates where a value replaces a constant of the base.

Keys are paths that begin with the kind. The entries are template text; the printer indents it.
"""

from collections.abc import Mapping
from typing import Final

PROCESSES: Final[Mapping[str, str]] = {
    # name of a Deployment and its account: its section of the values
    "source-controller": "sourceController",
    "kustomize-controller": "kustomizeController",
    "helm-controller": "helmController",
    "image-controller": "imageController",
    "notification-controller": "notificationController",
    "webhook": "webhook",
    "penstock-apiserver": "apiserver",
}
POD: Final = "Deployment.spec.template.spec"
CONTAINER: Final = f"{POD}.containers[0]"
ARGUMENTS: Final = f"{CONTAINER}.args"
POD_LABELS: Final = "Deployment.spec.template.metadata.labels"
POD_ANNOTATIONS: Final = "Deployment.spec.template.metadata.annotations"
AFFINITY: Final = f"{POD}.affinity"
REPLICAS: Final = "Deployment.spec.replicas"
"""The base, or ``ha``, has the default; the value overrides it."""

VALUES: Final[Mapping[str, str]] = {
    # path: the value at the path, in JSON
    f"{CONTAINER}.image": '{{ include "penstock.image" $ | quote }}',
    f"{CONTAINER}.imagePullPolicy": "{{ $.Values.image.pullPolicy | quote }}",
    f"{CONTAINER}.resources": "{{ $.Values.PROCESS.resources | toJson }}",
    f"{POD}.nodeSelector": "{{ $.Values.PROCESS.nodeSelector | toJson }}",
    f"{POD}.priorityClassName": "{{ $.Values.PROCESS.priorityClassName | quote }}",
}
OPTIONAL: Final[Mapping[str, Mapping[str, str]]] = {
    # path of a mapping: keys that are added where the value is not empty
    POD: {
        "tolerations": "$.Values.PROCESS.tolerations",
        "imagePullSecrets": "$.Values.image.pullSecrets",
    },
    "ServiceAccount.metadata": {"annotations": "$.Values.PROCESS.serviceAccount.annotations"},
}
