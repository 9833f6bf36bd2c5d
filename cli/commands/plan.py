"""``penstock diff inventory|helmrelease``: the plans that the aggregated API makes, printed."""

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from cli import completing, errors, examples, loading, output, plans, progress, session, window
from crds import HELM_RELEASE
from toolkit.objects import Json

if TYPE_CHECKING:
    from apiserver.inventories import appliers
else:
    appliers = loading.Later("apiserver.inventories.appliers")


def _planning(command: str, *, kind: str, what: str) -> click.Command:
    """Make ``diff COMMAND NAME``, where NAME is an object of the kind, or an inventory."""

    @click.argument(
        "name",
        shell_complete=completing.of(HELM_RELEASE) if kind else completing.served("inventories"),
    )
    @click.option("--revision", default="", help="Plan this stored revision, not the current.")
    @click.option(
        "-o", "--output", "fmt", type=click.Choice(("json", "yaml")), help="Output format."
    )
    @session.options
    def planned(*, name: str, revision: str, fmt: str | None, **arguments: Any) -> None:
        connection = session.connection(arguments)

        async def work(opened: session.Session) -> Json:
            subresource = "plan" if revision else "diff"
            inventory = appliers.inventory_name(kind, name) if kind else name
            where = window.path("inventories", opened.namespace, inventory, subresource)
            query = {"revision": revision} if revision else {}
            found: Json = msgspec.json.decode(await window.read(opened, where, query=query))
            return found

        _tell(session.run(connection, work), fmt)

    name = f"{'' if kind else 'kustomization-'}apps"
    epilog = examples.example(f"penstock diff {command} {name}")
    return click.command(command, help=what, epilog=epilog)(planned)


def _tell(plan: Json, fmt: str | None) -> None:
    if fmt:
        click.echo(output.render([plan], fmt, single=True), nl=False)
    else:
        for line in plans.lines(plan):
            click.echo(line)
    if plan.get("changes"):
        progress.failure("there are differences")
        raise errors.DifferentError("there are differences")


diff_inventory: Final = _planning(
    "inventory",
    kind="",
    what="""Show what a reconcile would change; exit code 1 if anything would.

    The cluster's own controller builds and asks, with its keys and the account that applies. Values
    of Secrets are never shown.""",
)
diff_helmrelease: Final = _planning(
    HELM_RELEASE.singular,
    kind=HELM_RELEASE.kind,
    what="""Show what an install or an upgrade would change; exit code 1 if anything would.

    The cluster's own controller renders the chart and asks, with the values and the account of the
    HelmRelease. Values of Secrets are never shown. No hook runs; those that would are named.""",
)
