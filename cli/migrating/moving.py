"""A takeover from its first step to its last, or from the last back to the first."""

import msgspec

from cli import errors, progress
from cli.migrating.steps import STEPS, Step, Takeover


async def forward(work: Takeover, *, until: int) -> None:
    """Do the steps up to a number; repeat those that were done before.

    Raises:
        PenstockError: a step failed; the next run continues with it.
    """
    for number, step in enumerate(STEPS[:until], 1):
        progress.action(f"step {number} of {len(STEPS)}: {step.title}")
        await _begun(work, step)
        await step.do(work)
    if until < len(STEPS):
        progress.success(f"done up to step {until}; run the command again to go on")
    else:
        progress.success("Penstock reconciles what Flux did; --rollback gives it back")


async def back(work: Takeover) -> None:
    """Undo, in reverse, the steps that were begun.

    Raises:
        UsageError: none was.
        PenstockError: a step cannot be undone; the next run continues with it.
    """
    if not work.book.is_written:
        raise errors.UsageError("no migration was begun in this cluster, so there is none to undo")
    for number, step in reversed(list(enumerate(STEPS, 1))):
        done = work.book.memory.done
        if step.name not in done:
            continue
        progress.action(f"undoing step {number} of {len(STEPS)}: {step.undone}")
        await step.undo(work)
        if work.book.is_written:
            left = tuple(each for each in done if each != step.name)
            await work.book.write(msgspec.structs.replace(work.book.memory, done=left))
    progress.success("Flux reconciles again what Penstock did")


async def _begun(work: Takeover, step: Step) -> None:
    """Remember that a step was begun, before it changes anything.

    What is remembered first is how Flux runs, by the first step itself.
    """
    memory = work.book.memory
    if work.book.is_written and step.name not in memory.done:
        await work.book.write(msgspec.structs.replace(memory, done=(*memory.done, step.name)))
