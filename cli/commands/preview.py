"""``penstock preview automation``: the commit that an ImageUpdateAutomation would push."""

from typing import TYPE_CHECKING, Any

import click

from cli import completing, examples, kindtree, loading, output, progress, session, terminal
from crds import IMAGE_UPDATE_AUTOMATION
from toolkit.objects import Json

if TYPE_CHECKING:
    from cli.local import automation as local
    from cli.local.automation import Preview
else:
    local = loading.Later("cli.local.automation")


@click.group("preview", cls=kindtree.AliasGroup, no_args_is_help=True)
def preview() -> None:
    """Show the commit that an ImageUpdateAutomation would push."""


@click.command("automation", epilog=examples.example("penstock preview automation shop"))
@click.argument("name", shell_complete=completing.of(IMAGE_UPDATE_AUTOMATION))
@click.option("-o", "--output", "fmt", type=click.Choice(("json", "yaml")), help="Output format.")
@session.options
def automation(*, name: str, fmt: str | None, **arguments: Any) -> None:
    """Show the commit that an ImageUpdateAutomation would push now, as a diff.

    Nothing is pushed. This command fetches the repository and writes the images that the
    ImagePolicies have chosen, with your rights: you need `get` on the Secret of the GitRepository.
    """
    connection = session.connection(arguments)

    async def work(opened: session.Session) -> "Preview":
        return await local.preview(opened, name)

    found = session.run(connection, work)
    if fmt:
        click.echo(output.encode(_document(found), fmt), nl=False)
        return
    for problem in found.ignored:
        progress.failure(problem)
    if not found.files:
        progress.success(f"repository up-to-date at {found.base}")
        return
    progress.action(f"{found.targets} would get a commit on {found.base}")
    message = "".join(f"    {line}\n" for line in found.message.splitlines())
    click.echo(terminal.printable(message, keep="\n\t"))
    for file in found.files:
        click.echo(terminal.printable(file.diff, keep="\n\t"), nl=False)


def _document(found: "Preview") -> Json:
    return {
        "base": found.base,
        "targets": list(found.plan_targets),
        "message": found.message,
        "files": [
            {"path": file.path, "changes": list(file.changes), "diff": file.diff}
            for file in found.files
        ],
        "ignored": list(found.ignored),
    }


preview.add_command(automation)
preview.add_aliases(automation, kindtree.names(IMAGE_UPDATE_AUTOMATION))
