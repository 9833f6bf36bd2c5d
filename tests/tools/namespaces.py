"""Namespaces that have just been made: controllers add to them a moment later."""

import contextlib

from tests.tools.waiting import until
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind

_CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
_AUTHORITY = "kube-root-ca.crt"


async def inhabited(admin: Client, namespace: str) -> None:
    """Wait for the ConfigMap that each namespace gets as soon as a controller has seen it."""

    async def found() -> bool:
        with contextlib.suppress(NotFoundError):
            return bool(await admin.get(_CONFIG_MAP, _AUTHORITY, namespace))
        return False

    await until(found)
