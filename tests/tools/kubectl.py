"""kubectl beside a test that goes on serving.

``run`` must succeed, ``refused`` must fail. ``answer`` takes both, for tests that wait until one
becomes the other.
"""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

from controlplane.errors import ControlPlaneError
from controlplane.plane import ControlPlane
from toolkit.objects import Json

_SECONDS = 60


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """kubectl in one namespace, as the administrator or as whom the kubeconfig names.

    What it prints and what it warns of come back as one text. An ``obj`` is sent as its file.
    """

    plane: ControlPlane
    namespace: str
    kubeconfig: Path | None = None

    async def run(self, *arguments: str, obj: Json | None = None, stdin: str = "") -> str:
        """Return what it says; it must succeed."""
        code, said = await self._ran(arguments, obj, stdin)
        assert code == 0, f"kubectl {' '.join(arguments)} failed: {said}"
        return said

    async def refused(self, *arguments: str, obj: Json | None = None, stdin: str = "") -> str:
        """Return what it says; it must fail."""
        code, said = await self._ran(arguments, obj, stdin)
        assert code != 0, f"kubectl {' '.join(arguments)} was not refused: {said}"
        return said

    async def answer(self, *arguments: str, obj: Json | None = None, stdin: str = "") -> str:
        """Return what it says; for tests that wait until a refusal becomes a success, or back."""
        _, said = await self._ran(arguments, obj, stdin)
        return said

    async def _ran(
        self, arguments: tuple[str, ...], obj: Json | None, stdin: str
    ) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *(
                self.plane.kubectl_program,
                f"--kubeconfig={self.kubeconfig or self.plane.kubeconfig}",
            ),
            *(f"--namespace={self.namespace}", *arguments, *(("-f", "-") if obj else ())),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(_SECONDS):
                said, _ = await process.communicate((json.dumps(obj) if obj else stdin).encode())
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        return process.returncode, said.decode()
