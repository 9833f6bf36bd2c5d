"""Another certificate for the process of a window."""

import asyncio
import contextlib
import ssl

from apiserver.registration import NAME
from tests.contract.apiserver.window import Window
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind

SECRET = GroupVersionKind("", "v1", "Secret")
OVERLAP = 5.0
"""Seconds for which clients trust a new authority before its certificate is served; usually 10."""


async def served(window: Window) -> str:
    """Return the certificate that a new connection is shown."""
    return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", window.port))


async def renew(window: Window) -> None:
    """Take the certificates away, authority and all, and wait for others."""
    name = f"{NAME}-certificates"
    before = await window.admin.get(SECRET, name, window.home)
    await window.admin.delete(SECRET, name, window.home)

    async def there() -> bool:
        with contextlib.suppress(NotFoundError):
            now = await window.admin.get(SECRET, name, window.home)
            return bool(now["data"] != before["data"])
        return False

    await window.until(there)
