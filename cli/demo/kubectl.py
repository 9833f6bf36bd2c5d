"""Run the real kubectl, and tell whether the gate admits an object.

A refusal is part of the demo, so it is distinguished from other errors.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from cli import errors
from toolkit.objects import Json, dig

_DENIED: Final = '.admission.penstock.dev" denied the request: '


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """The program, for one cluster; ``patience`` is in seconds."""

    program: str
    kubeconfig: Path
    context: str = ""
    """A context of the file; empty is its current one."""
    patience: float

    async def __call__(self, *arguments: str) -> str:
        """Run kubectl and return its output.

        Raises:
            FailedError: it failed; the message is kubectl's.
        """
        return await self._succeed(arguments)

    async def apply(self, *manifest: Json) -> None:
        """Apply objects.

        Raises:
            FailedError: it failed; the message is its own.
        """
        await self._succeed(("apply", "-f", "-"), manifest)

    async def refused(self, *manifest: Json) -> str:
        """Apply an object that the gate must refuse, and return kubectl's output.

        Raises:
            FailedError: it was admitted, or not refused by the gate.
        """
        code, _, complaint = await self._run(("apply", "-f", "-"), manifest)
        if code == 0:
            raise errors.FailedError(f"{_names(manifest)} was admitted")
        if _DENIED not in complaint:
            raise errors.FailedError(f"{_names(manifest)} was not refused by the gate: {complaint}")
        return complaint

    async def decides(self, *manifest: Json, admitted: bool) -> None:
        """Wait until a dry-run ends like this: the gate learns of policies by watch.

        Raises:
            DeadlineError: it did not in time.
        """
        arguments = ("apply", "--dry-run=server", "-f", "-")
        end = _now() + self.patience
        while True:
            code, _, complaint = await self._run(arguments, manifest)
            if (code == 0) is admitted:
                return
            if _now() > end:
                wanted = "admitted" if admitted else "refused"
                raise errors.DeadlineError(
                    f"{_names(manifest)} was not {wanted} within {self.patience:g}s: {complaint}"
                )

    async def _succeed(self, arguments: Sequence[str], manifest: Sequence[Json] = ()) -> str:
        code, out, complaint = await self._run(arguments, manifest)
        if code != 0:
            raise errors.FailedError(f"kubectl {arguments[0]} failed: {complaint}")
        return out

    async def _run(
        self, arguments: Sequence[str], manifest: Sequence[Json]
    ) -> tuple[int | None, str, str]:
        process = await asyncio.create_subprocess_exec(
            *(self.program, f"--kubeconfig={self.kubeconfig}", f"--context={self.context}"),
            *(f"--request-timeout={self.patience:g}s", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        document = yaml.safe_dump_all(manifest).encode()
        out, complaint = await process.communicate(document)
        return process.returncode, out.decode(), complaint.decode().strip()


def _names(manifest: Sequence[Json]) -> str:
    return ", ".join(f"{obj['kind']}/{dig(obj, 'metadata', 'name')}" for obj in manifest)


def _now() -> float:
    return asyncio.get_running_loop().time()
