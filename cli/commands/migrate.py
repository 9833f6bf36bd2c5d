"""``penstock migrate``: to the newest API versions, in a cluster or in files, and from Flux."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cli import asking, errors, examples, loading, progress, session
from cli.creating.flags import words
from cli.installing import choosing, flux
from toolkit.kube import rbac

if TYPE_CHECKING:
    from cli.migrating import ways
    from cli.versions import rewriting, storing, targets
else:
    ways = loading.Later("cli.migrating.ways")
    rewriting = loading.Later("cli.versions.rewriting")
    storing = loading.Later("cli.versions.storing")
    targets = loading.Later("cli.versions.targets")

_FORMATS: Final = ("json", "yaml")
_OF_FLUX: Final = ("rollback", "finish", "until", "grants", "fmt")
_OF_FILES: Final = ("extensions", "version")


@click.command(
    "migrate",
    epilog=examples.example(
        "penstock migrate --dry-run",
        "penstock migrate -f ./clusters --yes",
        "penstock migrate --from-flux --dry-run",
    ),
)
@click.option(
    "-f",
    "--path",
    type=click.Path(path_type=Path),
    help="Change the manifests in this file or directory, and contact no cluster.",
)
@click.option(
    "-e",
    "--extensions",
    multiple=True,
    metavar="LIST",
    help="With --path: which files to read; default .yaml,.yml.",
)
@click.option(
    "-v",
    "--version",
    default="",
    help="With --path: the minor version of Flux, such as 2.6, whose newest API versions are "
    "written, or penstock. The default is the newest that Flux and Penstock have, and then no "
    "newer one is taken back.",
)
@click.option("--from-flux", is_flag=True, help="Take the cluster over from Flux.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@click.option(
    "--rollback",
    is_flag=True,
    help="With --from-flux: undo the steps, and give the cluster back to Flux.",
)
@click.option(
    "--finish",
    is_flag=True,
    help="With --from-flux: delete what is left of Flux once no repository holds it. There is no "
    "way back.",
)
@click.option(
    "--until",
    type=click.IntRange(min=1),
    metavar="STEP",
    help="With --from-flux: stop after the step with this number.",
)
@click.option(
    "--allow-references",
    "grants",
    is_flag=True,
    help="With --from-flux: grant the existing references to other namespaces.",
)
@click.option(
    "--flux-namespace",
    "flux_namespace",
    default=flux.NAMESPACE,
    show_default=True,
    help="With --from-flux: namespace of Flux.",
)
@click.option(
    "-o",
    "--output",
    "fmt",
    type=click.Choice(_FORMATS),
    help="With --from-flux: format of findings.",
)
@click.option(
    "-s", "--silent", "-y", "--yes", "silent", is_flag=True, help="Do not ask for confirmation."
)
@choosing.options
@session.options
def migrate(*, path: Path | None, from_flux: bool, **said: Any) -> None:
    """Migrate to the newest API versions, or take a cluster over from Flux.

    Alone it writes all objects of the cluster anew, so that each is stored in the version of its
    definition, and tells the definition so. No spec changes. You need to list and patch the
    objects, and to read and patch (status) the definitions.

    With --path it changes the apiVersion of manifests, and nothing else of a file. What a person
    has to change is told, and left as it is; the exit code is then 1.

    With --from-flux it takes the cluster over step by step, or gives it back. First it tells what
    it finds, and what to do about it. What blocks has to be removed before the first step. Each
    step may be done again: run the command again after an interruption. No workload is changed.
    Exit code 0 means that it is done, or could be, 1 that it could not.
    """
    _require_fitting(said, files=path is not None, from_flux=from_flux)
    if path is not None:
        _files(path, **{name: said[name] for name in (*_OF_FILES, "dry_run", "silent")})
    elif from_flux:
        _from_flux(said)
    else:
        dry_run = said["dry_run"]
        connection = session.connection(said)
        session.run(
            connection, lambda opened: storing.migrate(opened, dry_run=dry_run), pace="steps"
        )


def _require_fitting(said: dict[str, Any], *, files: bool, from_flux: bool) -> None:
    if files and from_flux:
        raise errors.UsageError("--path and --from-flux exclude each other")
    if said["rollback"] and said["finish"]:
        raise errors.UsageError("--rollback and --finish exclude each other")
    names = {"grants": "allow-references", "fmt": "output"}
    for flag, needed, given in (("from-flux", _OF_FLUX, from_flux), ("path", _OF_FILES, files)):
        alone = next((each for each in needed if said[each]), "")
        if alone and not given:
            raise errors.UsageError(f"--{names.get(alone, alone)} needs --{flag}")


def _from_flux(said: dict[str, Any]) -> None:
    connection = session.connection(said)
    choice = choosing.choice(said, namespace=connection.namespace or rbac.NAMESPACE)
    wish = ways.Wish(
        direction="back" if said["rollback"] else "finish" if said["finish"] else "forward",
        dry_run=said["dry_run"],
        silent=said["silent"],
        until=said["until"] or 0,
        grants=said["grants"],
        flux=said["flux_namespace"],
        fmt=said["fmt"] or "",
    )
    session.run(
        session.placed(connection, choice.namespace),
        lambda opened: ways.go(opened, choice, wish),
        pace="steps",
    )


def _files(
    path: Path, *, extensions: tuple[str, ...], version: str, dry_run: bool, silent: bool
) -> None:
    target = targets.Target.named(version)
    endings = tuple(words(extensions))
    found = [rewriting.look(each, target) for each in rewriting.paths(path, endings or None)]
    left = _told(found)
    changed = [file for file in found if file.edits]
    if not (changed or left):
        progress.success("no custom resources found that require migration")
    if dry_run:
        progress.success("nothing was changed (--dry-run)")
    elif changed:
        _change(changed, silent=silent)
    if left:
        raise errors.FailedError(f"{left} objects or versions were left as they are")


def _told(found: "list[rewriting.Found]") -> int:
    """Print the changes, and return the number of those that a person must make."""
    for file in found:
        for edit in file.edits:
            click.echo(f"{file.path}:{edit.line}: {edit.kind} {edit.old} -> {edit.new}")
    for note in [each for file in found for each in file.notes]:
        progress.waiting(note)
    left = [each for file in found for each in file.left]
    for each in left:
        progress.failure(each)
    return len(left)


def _change(found: "list[rewriting.Found]", *, silent: bool) -> None:
    if not silent:
        asking.require("Change these files?", otherwise="nothing was changed", flag="--yes")
    for file in found:
        rewriting.write(file)
        progress.success(f"{file.path} migrated")
