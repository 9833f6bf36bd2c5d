"""What is installed in clusters, in a namespace of the test's own."""

import json
from pathlib import Path

import yaml

from controlplane.plane import ControlPlane
from toolkit.kube import rbac
from toolkit.objects import Json


def documents(text: str) -> list[Json]:
    """Return the documents of YAML that is ours."""
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]


def moved(text: str, namespace: str) -> list[Json]:
    """Return objects; what is namespaced, and accounts that are bound, are of the namespace."""
    text = text.replace(f"namespace: {rbac.NAMESPACE}", f"namespace: {namespace}")
    return documents(text)


def built(plane: ControlPlane, folder: Path) -> list[Json]:
    """Return what kustomize makes of a folder."""
    return documents(plane.kubectl("kustomize", str(folder), timeout=60))


def strictly_applied(plane: ControlPlane, folder: Path, namespace: str) -> str:
    """Return what kubectl says when it applies a folder to the namespace, field by field known."""
    return plane.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server"),
        *("--validate=strict", f"--namespace={namespace}", "-f", "-"),
        stdin=json.dumps(
            {"apiVersion": "v1", "kind": "List", "items": built(plane, folder)}
        ).replace(rbac.NAMESPACE, namespace),
    )
