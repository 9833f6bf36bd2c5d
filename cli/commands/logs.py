"""``penstock logs``: what the controllers log, for people."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli import age, errors, examples, loading, loglines, session
from cli.stack import state

if TYPE_CHECKING:
    from cli import logsources
else:
    logsources = loading.Later("cli.logsources")


@click.command("logs", epilog=examples.example("penstock logs --level error --since 10m -f"))
@click.option("--kind", default="", help="Only lines about this kind.")
@click.option("--name", default="", help="Only lines about objects of this name.")
@click.option("--level", type=click.Choice(loglines.LEVELS), help="Only this level.")
@click.option("--since", type=age.DURATION, help="Only lines younger than this, such as 5m.")
@click.option("--tail", default=-1, help="The last lines of each log only; -1 means all.")
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines.")
@click.option("--flux-namespace", default="", help="Namespace of the controllers, in a cluster.")
@click.option(
    "--state",
    "directory",
    type=click.Path(path_type=Path),
    help="State directory of `penstock up`; its logs are preferred while it runs.",
)
@session.options
def logs(
    directory: Path | None,
    flux_namespace: str,
    *,
    tail: int,
    follow: bool,
    **arguments: Any,
) -> None:
    """Show the controllers' logs: of the local `penstock up` if it runs, else of the cluster.

    With --namespace only lines about objects of that namespace are shown.
    """
    connection = session.connection(arguments)
    chosen = _filter(connection.namespace, **arguments)
    home = directory or state.default_directory()
    if directory or state.is_locked(home):
        files = sorted((home / "logs").glob("*.log"))
        if not files:
            raise errors.UsageError(
                f"there are no logs in {home}: name the --state of `penstock up`"
            )
        sources = [logsources.of_file(path, tail=tail, follow=follow) for path in files]
        asyncio.run(_print(sources, chosen, follow=follow))
        return

    async def work(opened: session.Session) -> None:
        found = await logsources.pods(opened.api, flux_namespace)
        pods = [logsources.of_pod(opened.api, pod, tail=tail, follow=follow) for pod in found]
        await _print(pods, chosen, follow=follow)

    session.run(connection, work)


def _filter(
    namespace: str, *, kind: str, name: str, level: str | None, since: float | None
) -> loglines.Filter:
    start = None if since is None else datetime.now(UTC) - timedelta(seconds=since)
    return loglines.Filter(
        kind=kind, name=name, namespace=namespace, level=level or "", since=start
    )


async def _print(
    sources: list[AsyncIterator[str]], chosen: loglines.Filter, *, follow: bool
) -> None:
    """Print the lines as they come, or sorted by time where there is an end."""
    kept: list[loglines.Line] = []
    async for text in logsources.merged(sources):
        line = loglines.parse(text)
        if line is None or not chosen.passes(line):
            continue
        if follow:
            click.echo(loglines.render(line))
        else:
            kept.append(line)
    for line in sorted(kept, key=lambda line: line.time):
        click.echo(loglines.render(line))
