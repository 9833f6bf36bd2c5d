"""Namespaces of tests: made without kubectl, and waited for, as controllers add to them later."""

import contextlib
import secrets

from tests.tools.waiting import until
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
_CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
_AUTHORITY = "kube-root-ca.crt"


async def create(admin: Client, name: str = "", **labels: str) -> str:
    """Make a namespace, under a name that nobody uses if none is given, and return its name."""
    name = name or f"test-{secrets.token_hex(4)}"
    metadata = {"name": name, "labels": labels}
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return name


async def gone(admin: Client, name: str) -> None:
    """Wait until a namespace that was deleted is there no more."""

    async def left() -> bool:
        try:
            await admin.get(NAMESPACE, name)
        except NotFoundError:
            return True
        return False

    await until(left)


async def inhabited(admin: Client, namespace: str) -> None:
    """Wait for the ConfigMap that each namespace gets as soon as a controller has seen it."""

    async def found() -> bool:
        with contextlib.suppress(NotFoundError):
            return bool(await admin.get(_CONFIG_MAP, _AUTHORITY, namespace))
        return False

    await until(found)
