"""Have a cluster follow a repository: credentials, source, Kustomization, and their first success.

What is as it shall be is left alone, so that a second run changes nothing.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

from cli import progress, session, status
from cli.bootstrap.files import Sync
from cli.commands import reconcile
from cli.stack import install
from crds import GIT_REPOSITORY, KUSTOMIZATION
from crds.kind import Kind
from toolkit.kube.client import Client
from toolkit.kube.errors import NoMatchError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig, ref_of

SECRET: Final = GroupVersionKind("", "v1", "Secret")


async def credentials(api: Client, namespace: str, name: str) -> dict[str, bytes]:
    """Return what the Secret holds, nothing if there is none."""
    found = await _found(api, SECRET, ObjectKey(namespace, name))
    data: Mapping[str, str] = dig(found or {}, "data", default={})
    return {key: base64.b64decode(value) for key, value in data.items()}


async def keep_credentials(
    api: Client, namespace: str, name: str, wanted: Mapping[str, bytes]
) -> None:
    """Write the Secret, if it holds anything else."""
    if await credentials(api, namespace, name) == wanted:
        return
    data = {key: base64.b64encode(value).decode() for key, value in sorted(wanted.items())}
    metadata = {"name": name, "namespace": namespace}
    obj: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    await api.apply(obj, manager=install.MANAGER)
    progress.success(f"Secret {namespace}/{name} holds the credentials")


async def follow(api: Client, sync: Sync) -> None:
    """Apply the GitRepository and the Kustomization, where they are missing or differ."""
    for wanted in sync.objects():
        ref = ref_of(wanted)
        found = await _found(api, ref.gvk, ref.key)
        if found is None or _differs(found["spec"], wanted["spec"]):
            await api.apply(wanted, manager=install.MANAGER)
            progress.success(f"{ref.gvk.kind} {ref.key} applied")


async def require(opened: session.Session, sync: Sync, revision: str) -> None:
    """Wait until the revision, or a later one of the branch, is stored and applied.

    Raises:
        FailedError: a controller says that it will not try again.
        DeadlineError: it is not within the session's timeout.
    """
    key = ObjectKey(sync.namespace, sync.namespace)
    for kind in (GIT_REPOSITORY, KUSTOMIZATION):
        revision = await _reached(opened, kind, key, revision)


async def _reached(opened: session.Session, kind: Kind[Any], key: ObjectKey, revision: str) -> str:
    found = await opened.api.get(GroupVersionKind(*kind.gvk), key.name, key.namespace)
    if status.settled(found) and status.revision(found) == revision:
        progress.success(f"{kind.kind} {key} is at revision {revision}")
        return revision
    found = await reconcile.request(opened, kind, key, patient=True)
    found = await reconcile.catch_up(opened, kind, key, found, patient=True)
    reached = status.revision(found)
    if reached != revision:
        progress.waiting(f"{kind.kind} {key} went on to {reached}: the branch has later commits")
    return reached


async def _found(api: Client, kind: GroupVersionKind, key: ObjectKey) -> Json | None:
    try:
        return await api.get(kind, key.name, key.namespace)
    except (NoMatchError, NotFoundError):
        return None


def _differs(found: Json, wanted: Json) -> bool:
    return any(found.get(field) != value for field, value in wanted.items())
