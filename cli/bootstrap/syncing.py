"""Make a cluster follow a repository: credentials, source, Kustomization, first success.

Objects that are as desired are not written, so that a second run changes nothing.
"""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from cli import progress, reconciling, session, status
from cli.bootstrap.files import Sync
from cli.stack import install
from crds import GIT_REPOSITORY, KUSTOMIZATION
from crds.kind import Kind
from toolkit.kube.client import Client
from toolkit.kube.errors import NoMatchError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig, key_of, ref_of

SECRET: Final = GroupVersionKind("", "v1", "Secret")


async def credentials(api: Client, namespace: str, name: str) -> dict[str, bytes]:
    """Return the data of the Secret; empty if it does not exist."""
    found = await _found(api, SECRET, ObjectKey(namespace, name))
    data: Mapping[str, str] = dig(found or {}, "data", default={})
    return {key: base64.b64decode(value) for key, value in data.items()}


async def keep_credentials(
    api: Client, namespace: str, name: str, wanted: Mapping[str, bytes]
) -> None:
    """Write the Secret if its data differ."""
    if await credentials(api, namespace, name) == wanted:
        return
    data = {key: base64.b64encode(value).decode() for key, value in sorted(wanted.items())}
    metadata = {"name": name, "namespace": namespace}
    obj: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    await api.apply(obj, manager=install.MANAGER)
    progress.success(f"Secret {namespace}/{name} holds the credentials")


async def require(opened: session.Session, sync: Sync, revision: str) -> None:
    """Wait until the revision, or a later one of the branch, is stored and applied.

    Raises:
        FailedError: a controller reports that it will not try again.
        DeadlineError: it takes longer than the session's timeout.
    """
    source, applied = sync.objects()
    key = key_of(source)
    while True:
        async with _paused(opened.api, source):
            stored = await _stored(opened, source, revision)
        await write(opened.api, applied)
        reached = await _reached(opened, KUSTOMIZATION, key, stored)
        if not await _differs(opened.api, source):
            break
    if reached != revision:
        progress.waiting(f"{key} went on to {reached}: the branch has later commits")


async def write(api: Client, *objects: Json) -> None:
    """Apply objects where they are missing or differ."""
    for wanted in objects:
        if await _differs(api, wanted):
            await api.apply(wanted, manager=install.MANAGER)
            progress.success(f"{wanted['kind']} {key_of(wanted)} applied")


@asynccontextmanager
async def _paused(api: Client, source: Json) -> AsyncIterator[None]:
    """Suspend the Kustomization while it is given another source.

    What it has applied declares the source before, and its controller would put that back.
    """
    key, kind = key_of(source), GroupVersionKind(*KUSTOMIZATION.gvk)
    known = await _found(api, ref_of(source).gvk, key)
    follower = await _found(api, kind, key)
    moves = known is not None and await _differs(api, source)
    if not moves or follower is None or status.suspended(follower):
        yield
        return

    async def suspend(value: object) -> None:
        body = {"spec": {"suspend": value}}
        await api.patch(kind, key.name, key.namespace, body, strategy="merge")

    progress.action(f"suspending Kustomization {key} until the new source is stored")
    await suspend(True)  # noqa: FBT003
    try:
        yield
    finally:
        await suspend(None)


async def _stored(opened: session.Session, source: Json, revision: str) -> str:
    """Return the revision that is stored of the source as it is wanted.

    A pass that had begun before the Kustomization was suspended may put the source back once.
    """
    while True:
        await write(opened.api, source)
        reached = await _reached(opened, GIT_REPOSITORY, key_of(source), revision)
        if not await _differs(opened.api, source):
            return reached


async def _reached(opened: session.Session, kind: Kind[Any], key: ObjectKey, revision: str) -> str:
    """Return the revision of a Ready object; request a reconciliation if it is another one."""
    found = await opened.api.get(GroupVersionKind(*kind.gvk), key.name, key.namespace)
    if status.settled(found) and status.revision(found) == revision:
        progress.success(f"{kind.kind} {key} is at revision {revision}")
        return revision
    found = await reconciling.request(opened, kind, key, patient=True)
    found = await reconciling.catch_up(opened, kind, key, found, patient=True)
    return status.revision(found)


async def _differs(api: Client, wanted: Json) -> bool:
    """Tell whether an object does not exist, or its spec differs from the desired one."""
    ref = ref_of(wanted)
    found = await _found(api, ref.gvk, ref.key)
    spec = found["spec"] if found else {}
    return any(spec.get(field) != value for field, value in wanted["spec"].items())


async def _found(api: Client, kind: GroupVersionKind, key: ObjectKey) -> Json | None:
    try:
        return await api.get(kind, key.name, key.namespace)
    except (NoMatchError, NotFoundError):
        return None
