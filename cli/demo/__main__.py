"""``python -m cli.demo``: the main job in a minute. ``KEEP=1`` leaves it running, to go on by hand.

To stay, the whole demo runs in a process apart, which holds the state directory as ``penstock up``
does: ``penstock status``, ``logs`` and ``down`` work on it.
"""

import asyncio
import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from cli import errors, progress
from cli.demo import narration, stage, story
from cli.stack import stack, state, up
from toolkit.artifact import scratch
from toolkit.errors import PenstockError

STAY: Final = "--stay"


def main(arguments: Sequence[str]) -> int:
    """Tell the story; return 0, 1 after a failing step, 130 after Ctrl-C."""
    try:
        with errors.ungrouped():
            return _run(arguments)
    except PenstockError as exc:
        progress.failure(errors.explain(exc))
        return 1
    except KeyboardInterrupt:
        return 130


def _run(arguments: Sequence[str]) -> int:
    home = state.default_directory().absolute()
    if list(arguments) == [STAY]:
        asyncio.run(up.interruptible(_stay(home)))
        return 0
    if os.environ.get("KEEP", "") not in ("", "0"):
        up.detach(["-m", "cli.demo", STAY], home, report=click.echo)
        return 0
    with scratch.claimed() as directory:
        interrupted = asyncio.run(up.interruptible(_once(directory)))
    return 130 if interrupted else 0


async def _once(directory: Path) -> None:
    began = time.perf_counter()
    async with stage.build(directory, name=f"demo-{os.getpid()}") as built:
        for chapter in story.CHAPTERS:
            await chapter(built)
        took = narration.duration(time.perf_counter() - began)
    narration.chapter(f"Done in {took}; nothing is left running. KEEP=1 leaves it running.")


async def _stay(home: Path) -> None:
    settings = up.Settings(directory=home)
    with state.exclusive(home):
        up.record(settings, phase="starting")
        try:
            async with stage.build(home, name="demo") as built:
                for chapter in story.CHAPTERS:
                    await chapter(built)
                narration.chapter("It goes on running; `penstock down` stops it. Go on by hand:")
                click.echo(f"export KUBECONFIG={shlex.quote(str(built.cluster.kubeconfig))}")
                click.echo(f'export PATH={Path(built.cluster.kubectl).parent}:"$PATH"')
                click.echo(f"cd {shlex.quote(str(built.repository.tree))}  # commit, then:")
                click.echo(f"git push {shlex.quote(str(built.repository.bare))} main")
                await up.keep_record(settings, built.penstock, built.cluster)
        finally:
            state.clear(home)
            stack.forget(home)
            await asyncio.to_thread(shutil.rmtree, home / "git", ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
