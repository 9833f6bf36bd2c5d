"""kubectl beside a test that goes on serving.

``run`` must succeed, ``refused`` must fail. ``answer`` takes both, for tests that wait until one
becomes the other.
"""

import asyncio

from controlplane.errors import ControlPlaneError
from controlplane.plane import ControlPlane


async def run(plane: ControlPlane, *arguments: str, stdin: str | None = None) -> str:
    """Return what kubectl prints for the administrator.

    Raises:
        ControlPlaneError: it failed.
    """
    return await asyncio.to_thread(plane.kubectl, *arguments, stdin=stdin)


async def refused(plane: ControlPlane, *arguments: str, stdin: str | None = None) -> str:
    """Return why kubectl failed, which it must.

    Raises:
        AssertionError: it did what it was asked for.
    """
    try:
        done = await run(plane, *arguments, stdin=stdin)
    except ControlPlaneError as exc:
        return str(exc)
    raise AssertionError(f"kubectl {' '.join(arguments)} was not refused; it says {done}")


async def answer(plane: ControlPlane, *arguments: str, stdin: str | None = None) -> str:
    """Return what kubectl says to the administrator; a failure is an answer too."""
    try:
        return await run(plane, *arguments, stdin=stdin)
    except ControlPlaneError as exc:
        return f"failed: {exc}"
