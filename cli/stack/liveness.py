"""Liveness probes of a process, as a kubelet sends them (``livenessProbe``).

A process that hangs does not end, so it would not be restarted. The defaults are generous: on a
busy machine both the request and the answer take time.
"""

import asyncio

import aiohttp

from cli.stack.probing import Probe

_PATH = "/healthz"


async def hung(address: str, probe: Probe) -> str:
    """Ask until the process counts as hung, and return why; ``address`` is its base URL."""
    clock = asyncio.get_running_loop().time
    born, answered, failed = clock(), False, 0
    patience = aiohttp.ClientTimeout(total=probe.timeout)
    async with aiohttp.ClientSession(timeout=patience) as session:
        while True:
            await asyncio.sleep(probe.period)
            if await _answers(session, address):
                answered, failed = True, 0
                continue
            failed += 1
            if answered and failed >= probe.failures:
                return f"did not answer {_PATH} {failed} times in a row"
            if not answered and clock() - born >= probe.startup:
                return f"did not answer {_PATH} within {probe.startup:.0f}s of its start"


async def _answers(session: aiohttp.ClientSession, address: str) -> bool:
    try:
        async with session.get(address + _PATH) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False
