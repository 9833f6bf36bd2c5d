"""The ways through a migration from Flux: forward, back, and the end; each asks first."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

import click

from cli import asking, errors, progress, session
from cli.installing.manifests import Choice
from cli.migrating import findings, finishing, moving, preflight, survey
from cli.migrating.findings import Finding
from cli.migrating.memory import Book
from cli.migrating.request import Request
from cli.migrating.steps import STEPS, Takeover, listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The options: direction, output, and the last step, 0 for all."""

    direction: Literal["forward", "back", "finish"]
    dry_run: bool
    silent: bool
    until: int
    grants: bool
    flux: str
    fmt: str


async def go(opened: session.Session, choice: Choice, wish: Wish) -> None:
    """Migrate in the direction of the options.

    Raises:
        CommandError: a finding blocks, or there is nothing to undo.
        PenstockError: a step failed.
    """
    if wish.until > len(STEPS):
        raise errors.UsageError(f"--until: there are {len(STEPS)} steps")
    book = Book(opened.api, wish.flux)
    await book.open()
    await _WAYS[wish.direction](opened, book, choice, wish)


async def _forward(opened: session.Session, book: Book, choice: Choice, wish: Wish) -> None:
    _require_same(book, choice)
    progress.action("looking at the cluster")
    seen = await survey.read(opened.api, wish.flux)
    found = preflight.find(Request(survey=seen, choice=choice, grants=wish.grants))
    _tell(found, book, wish)
    blocking = findings.blocking(found)
    if blocking:
        raise errors.FailedError(f"{len(blocking)} findings block the migration")
    if wish.dry_run:
        progress.success("nothing blocks the migration; nothing was changed")
        return
    until = wish.until or len(STEPS)
    _confirm(f"Take the cluster over from Flux, up to step {until} of {len(STEPS)}?", wish)
    work = Takeover(opened=opened, survey=seen, book=book, choice=choice, grants=wish.grants)
    await moving.forward(work, until=until)


async def _back(opened: session.Session, book: Book, choice: Choice, wish: Wish) -> None:
    _require_same(book, choice)
    if not book.is_written:
        raise errors.UsageError(
            f"no migration from Flux in namespace {wish.flux} was begun, so there is none to undo"
        )
    undone = [each for each in reversed(STEPS) if each.name in book.memory.done]
    if wish.dry_run or wish.fmt:
        _tell([], book, wish)
    if wish.dry_run:
        progress.success(f"{len(undone)} steps would be undone; nothing was changed")
        return
    _confirm("Give the cluster back to Flux?", wish)
    nothing = survey.nothing(wish.flux)
    await moving.back(
        Takeover(opened=opened, survey=nothing, book=book, choice=choice, grants=False)
    )


async def _finish(opened: session.Session, book: Book, choice: Choice, wish: Wish) -> None:
    _require_same(book, choice)
    nothing = survey.nothing(wish.flux)
    work = Takeover(opened=opened, survey=nothing, book=book, choice=choice, grants=False)
    if wish.dry_run:
        for part in await finishing.deletable(work):
            click.echo(f"{part.ref}")
        return
    _confirm("Delete what is left of Flux? There is no way back", wish)
    await finishing.finish(work)


_WAYS: Final[dict[str, Callable[[session.Session, Book, Choice, Wish], Awaitable[None]]]] = {
    "forward": _forward,
    "back": _back,
    "finish": _finish,
}


def _require_same(book: Book, choice: Choice) -> None:
    begun = book.memory.namespace
    if begun and begun != choice.namespace:
        raise errors.UsageError(
            f"the migration was begun with --namespace {begun}: name it, or undo that first"
        )


def _tell(found: list[Finding], book: Book, wish: Wish) -> None:
    steps = listed(book.memory.done)
    if wish.fmt:
        click.echo(findings.encode(found, steps, wish.fmt), nl=False)
        return
    click.echo(findings.shown(found), nl=False)
    if wish.dry_run:
        for row in steps:
            note = " (done)" if row["done"] else ""
            click.echo(f"{row['number']}. {row['title']}{note}; to undo it: {row['undo']}")


def _confirm(question: str, wish: Wish) -> None:
    if not wish.silent:
        asking.require(question, otherwise="nothing was changed")
