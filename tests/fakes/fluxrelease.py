"""A HelmRelease as Flux's helm-controller leaves it since Helm 3.

Its objects were written by client-side apply under the controller's name and with its two labels,
Helm's storage has a record, and the history has the digests of that record (how they are computed:
``tests/conformance/release``). The release itself is made by the real Helm.
"""

import base64
import gzip
from collections.abc import Iterable

import msgspec

from tests.fakes import charts
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json
from toolkit.release import record

HELM_RELEASE = GroupVersionKind("helm.toolkit.fluxcd.io", "v2", "HelmRelease")
SECRET = GroupVersionKind("", "v1", "Secret")
FINALIZER = "finalizers.fluxcd.io"
FLUX = "helm-controller"
"""The name of the controller and of its field manager."""
MARKS = """\
metadata:
  labels:
    helm.toolkit.fluxcd.io/name: {{ .Release.Name }}
    helm.toolkit.fluxcd.io/namespace: {{ .Release.Namespace }}
"""
CHART = charts.chart(
    "shop",
    "1.0.0",
    extra="appVersion: '1'\n",
    **{
        "values.yaml": "{}\n",
        "templates__configmap.yaml": "",
        "templates__deployment.yaml": charts.DEPLOYMENT.replace("metadata:\n", MARKS, 1),
    },
)
"""A chart of one Deployment, which is named after the release."""


async def in_its_name(
    api: Client, namespace: str, objects: Iterable[tuple[GroupVersionKind, str]]
) -> None:
    """Have the objects be written by Flux's controller."""
    for gvk, name in objects:
        path = "/metadata/managedFields/0/manager"
        operation = {"op": "replace", "path": path, "value": FLUX}
        await api.patch(gvk, name, namespace, [operation], strategy="json")


async def stored(api: Client, namespace: str) -> record.Record:
    """Return the one record in Helm's storage."""
    (secret,) = await api.list(SECRET, namespace, label_selector="owner=helm")
    packed = base64.b64decode(secret["data"]["release"])
    return record.decode(gzip.decompress(base64.b64decode(packed)))


async def told(api: Client, namespace: str, name: str, found: record.Record) -> None:
    """Write what the controller says of a release that it has installed."""
    done = f"Helm install succeeded for release {namespace}/{name}.v1 with chart shop@1.0.0"
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": "InstallSucceeded",
            "message": done,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
        for kind in ("Ready", "Released")
    ]
    snapshot = record.snapshot(found)
    status: Json = {
        "conditions": conditions,
        "helmChart": f"{namespace}/{namespace}-{name}",
        "history": [msgspec.to_builtins(snapshot)],
        "lastAttemptedConfigDigest": snapshot.config_digest,
        "lastAttemptedGeneration": 1,
        "lastAttemptedReleaseAction": "install",
        "lastAttemptedRevision": "1.0.0",
        "observedGeneration": 1,
        "storageNamespace": namespace,
    }
    await api.patch(
        *(HELM_RELEASE, name, namespace, {"status": status}),
        strategy="merge",
        subresource="status",
        manager=FLUX,
    )
