"""``penstock version``: the versions of this command and of the components in a cluster."""

import importlib.metadata
from typing import TYPE_CHECKING, Any

import click

from cli import examples, loading, output, session
from toolkit.kube import rbac

if TYPE_CHECKING:
    from cli.installing import inspection
else:
    inspection = loading.Later("cli.installing.inspection")


@click.command("version", epilog=examples.example("penstock version -o yaml"))
@click.option(
    "--client", is_flag=True, help="Print the version of this command only, and contact no cluster."
)
@click.option("-o", "--output", "fmt", type=click.Choice(("json", "yaml")), help="Output format.")
@session.options
def version(*, client: bool, fmt: str | None, **said: Any) -> None:
    """Print the version of this command, and of each component in a cluster."""
    connection = session.connection(said)
    namespace = connection.namespace or rbac.NAMESPACE
    found = {"penstock": f"v{importlib.metadata.version('penstock')}"}
    if not client:
        found |= session.run(connection, lambda opened: inspection.versions(opened.api, namespace))
    if fmt:
        click.echo(output.encode(found, fmt), nl=False)
    else:
        click.echo("".join(f"{name}: {each}\n" for name, each in found.items()), nl=False)
