"""``penstock migrate --from-flux``: a cluster of Flux is taken over, or given back."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import click

from cli import errors, examples, progress, session
from cli.installing import choosing, flux
from cli.installing.manifests import Choice
from cli.migrating import findings, finishing, moving, preflight, survey
from cli.migrating.findings import Finding
from cli.migrating.memory import Book
from cli.migrating.request import Request
from cli.migrating.steps import STEPS, Takeover, listed
from toolkit.kube import rbac

_FORMATS: Final = ("json", "yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be done, and how it is told."""

    direction: Literal["forward", "back", "finish"]
    dry_run: bool
    silent: bool
    until: int
    grants: bool
    flux: str
    fmt: str


@click.command("migrate", epilog=examples.example("penstock migrate --from-flux --dry-run"))
@click.option("--from-flux", is_flag=True, help="Take over from Flux. Required.")
@click.option("--dry-run", is_flag=True, help="Only print the findings and the steps.")
@click.option("--rollback", is_flag=True, help="Undo the steps, and give the cluster back to Flux.")
@click.option(
    "--finish",
    is_flag=True,
    help="Delete what is left of Flux once no repository holds it. There is no way back.",
)
@click.option(
    "--until",
    type=click.IntRange(1, len(STEPS)),
    default=len(STEPS),
    metavar="STEP",
    help="Do the steps up to this number, and no more.",
)
@click.option(
    "--allow-references",
    "grants",
    is_flag=True,
    help="Grant the references to other namespaces that there are now.",
)
@click.option(
    "--flux-namespace",
    "flux_namespace",
    default=flux.NAMESPACE,
    show_default=True,
    help="Namespace of Flux.",
)
@click.option("-o", "--output", "fmt", type=click.Choice(_FORMATS), help="Format of findings.")
@click.option("-s", "--silent", is_flag=True, help="Do not ask for confirmation.")
@choosing.options
@session.options
def migrate(*, from_flux: bool, rollback: bool, finish: bool, **said: Any) -> None:
    """Take a cluster over from Flux step by step, or give it back to Flux.

    First it tells what it finds, and what to do about it. What blocks has to be removed before the
    first step. Each step may be done again: run the command again after an interruption. No
    workload is changed. Exit code 0 means that it is done, or could be, 1 that it could not.
    """
    if not from_flux:
        raise errors.UsageError("use --from-flux: there is nothing else to migrate from")
    if rollback and finish:
        raise errors.UsageError("--rollback and --finish exclude each other")
    connection = session.connection(said)
    choice = choosing.choice(said, namespace=connection.namespace or rbac.NAMESPACE)
    wish = Wish(
        direction="back" if rollback else "finish" if finish else "forward",
        flux=said.pop("flux_namespace"),
        fmt=said.pop("fmt") or "",
        **said,
    )

    async def work(opened: session.Session) -> None:
        book = Book(opened.api, wish.flux)
        await book.open()
        await _WAYS[wish.direction](opened, book, choice, wish)

    session.run(session.placed(connection, choice.namespace), work)


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
    _confirm(f"Take the cluster over from Flux, up to step {wish.until} of {len(STEPS)}?", wish)
    work = Takeover(opened=opened, survey=seen, book=book, choice=choice, grants=wish.grants)
    await moving.forward(work, until=wish.until)


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
    if not (wish.silent or click.confirm(question, err=True)):
        raise errors.UsageError("nothing was changed")
