"""The Kustomization that a local build follows: the live one, or one from a file."""

from pathlib import Path
from typing import Any

import yaml

from cli import decoding, errors, session
from crds import KUSTOMIZATION
from crds.kustomize import Kustomization
from toolkit.kube import errors as kube_errors
from toolkit.objects import GroupVersionKind, Json, ObjectKey, gvk_of, key_of

GVK = GroupVersionKind(*KUSTOMIZATION.gvk)


async def live(opened: session.Session, name: str) -> Json:
    """Read it from the cluster.

    Raises:
        UsageError: it does not exist.
    """
    try:
        return await opened.api.get(GVK, name, opened.namespace)
    except kube_errors.NotFoundError as exc:
        raise errors.UsageError(
            f'Kustomization object {name!r} not found in "{opened.namespace}" namespace; '
            "name one in a file with --kustomization-file"
        ) from exc


def from_file(path: Path, key: ObjectKey) -> Json:
    """Return the object from a file of manifests; the default namespace is that of ``key``.

    Raises:
        UsageError: the file cannot be read or does not contain the object.
    """
    try:
        documents = list(yaml.safe_load_all(path.read_text()))
    except (OSError, yaml.YAMLError) as exc:
        raise errors.UsageError(f"{path} cannot be read: {exc}") from exc
    for document in documents:
        if isinstance(document, dict) and _is(document, key):
            metadata = {**document["metadata"], "namespace": key.namespace}
            return {**document, "metadata": metadata}
    raise errors.UsageError(
        f"{path} contains no Kustomization {key}; choose its namespace with --namespace"
    )


def decode(obj: Json) -> Kustomization:
    """Decode it as the controller does.

    Raises:
        UsageError: it does not have the shape of its API version.
    """
    return decoding.decode(KUSTOMIZATION, obj)


def _is(document: dict[str, Any], key: ObjectKey) -> bool:
    found = key_of(document)
    return (
        gvk_of(document).group_kind == GVK.group_kind
        and found.name == key.name
        and found.namespace in ("", key.namespace)
    )
