"""kubectl beside a test that goes on serving."""

import asyncio

from controlplane.errors import ControlPlaneError
from controlplane.plane import ControlPlane


async def answer(plane: ControlPlane, *arguments: str, stdin: str | None = None) -> str:
    """Return what kubectl says to the administrator; a failure is an answer too."""
    try:
        return await asyncio.to_thread(plane.kubectl, *arguments, stdin=stdin)
    except ControlPlaneError as exc:
        return f"failed: {exc}"
