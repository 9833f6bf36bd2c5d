"""A stack as it was before a test killed, froze and stopped its processes."""

import asyncio
import signal

from cli.stack import COMPONENTS
from cli.stack.stack import Stack
from tests.tools import health

_ALONE = {component.name for component in COMPONENTS if component.asked_by_api_server}
"""Of these there is one, whatever the stack's number of replicas."""


async def restore(stack: Stack, *, replicas: int) -> None:
    """Have so many replicas of each component run and be ready, and no others.

    Raises:
        FailedError, DeadlineError: a process does not become ready.
        BrokenError: a process is ready, but does not answer.
    """
    running = list(stack._running)
    wanted = [(name, number) for name, number in running if number < replicas or name in _ALONE]
    others = [each for each in running if each not in wanted]
    # Those who go first hand their leases over.
    await asyncio.gather(*(_end(stack, name, number) for name, number in others))
    await asyncio.gather(*(_run(stack, name, number) for name, number in wanted))
    for name, number in wanted:
        health.check_process(stack, name, number)


async def _end(stack: Stack, name: str, number: int) -> None:
    await stack.kill(name, signal.SIGCONT, replica=number)
    if not _is_stopped(stack, name, number):
        await stack.stop(name, replica=number)


async def _run(stack: Stack, name: str, number: int) -> None:
    await stack.kill(name, signal.SIGCONT, replica=number)
    if _is_stopped(stack, name, number):
        await stack.restart(name, replica=number)
    else:
        await stack.wait_ready(name, replica=number)


def _is_stopped(stack: Stack, name: str, number: int) -> bool:
    """Tell whether the supervisor was told not to start a process again."""
    return stack._running[name, number].process._stopping.is_set()
