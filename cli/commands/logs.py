"""``penstock logs``: the logs of controllers in readable form."""

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli import age, errors, examples, loading, loglines, progress, session
from cli.stack import state

if TYPE_CHECKING:
    from cli import logsources
else:
    logsources = loading.Later("cli.logsources")


@click.command("logs", epilog=examples.example("penstock logs --level error --since 10m -f"))
@click.option("--kind", default="", help="Only lines about this kind.")
@click.option("--name", default="", help="Only lines about objects of this name.")
@click.option("--level", type=click.Choice(loglines.LEVELS), help="Only lines of this level.")
@click.option("--since", type=age.DURATION, help="Only lines younger than this, such as 5m.")
@click.option(
    "--since-time", default="", metavar="TIME", help="Only lines since this time (RFC 3339)."
)
@click.option(
    "--tail", default=-1, help="Only this number of last lines of each log; -1 means all."
)
@click.option("-f", "--follow", is_flag=True, help="Follow the logs.")
@click.option("--flux-namespace", default="", help="Namespace of the controllers, in a cluster.")
@click.option(
    "--state",
    "directory",
    type=click.Path(path_type=Path),
    help="State directory of `penstock up`; its logs are preferred while it runs.",
)
@click.option(
    "-A",
    "--all-namespaces",
    "everywhere",
    is_flag=True,
    help="Lines about objects of all namespaces, also with --namespace.",
)
@session.options
def logs(  # noqa: PLR0913 -- one parameter per option
    directory: Path | None,
    flux_namespace: str,
    *,
    tail: int,
    follow: bool,
    everywhere: bool,
    since: float | None,
    since_time: str,
    **arguments: Any,
) -> None:
    """Show the controllers' logs: of the local `penstock up` if it runs, else of the cluster.

    With --namespace only lines about objects of that namespace are shown. Where the log of a pod
    cannot be read, the others are shown, and the exit code is 1.
    """
    connection = session.connection(arguments)
    start = _start(since, since_time)
    chosen = loglines.Filter(
        kind=arguments["kind"],
        name=arguments["name"],
        namespace="" if everywhere else connection.namespace,
        level=arguments["level"] or "",
        since=start,
    )
    home = directory or state.default_directory()
    if directory or state.is_locked(home):
        files = sorted((home / "logs").glob("*.log"))
        if not files:
            raise errors.UsageError(
                f"there are no logs in {home}: name the --state of `penstock up`"
            )
        extent = logsources.Extent(tail=tail, follow=follow)
        sources = [logsources.of_file(path, extent) for path in files]
        asyncio.run(_print(sources, chosen, follow=follow))
        return

    async def work(opened: session.Session) -> None:
        found = await logsources.pods(opened.api, flux_namespace)
        # The kubelet compares with its own clock, which is the one of the lines.
        extent = logsources.Extent(
            tail=tail,
            follow=follow,
            since=since,
            since_time=start.isoformat() if start and since_time else "",
        )
        pods = [logsources.of_pod(opened.api, pod, extent) for pod in found]
        await _print(pods, dataclasses.replace(chosen, since=None), follow=follow)

    session.run(connection, work, pace="follow" if follow else "whole")


def _start(since: float | None, since_time: str) -> datetime | None:
    if since is not None and since_time:
        raise errors.UsageError("--since and --since-time exclude each other")
    if since_time:
        try:
            return age.parse_time(since_time)
        except ValueError as exc:
            raise errors.UsageError(
                f"--since-time: {since_time!r} is not a time such as 2026-01-31T12:00:00Z"
            ) from exc
    return None if since is None else datetime.now(UTC) - timedelta(seconds=since)


async def _print(
    sources: "list[logsources.Source]", chosen: loglines.Filter, *, follow: bool
) -> None:
    """Print the lines as they come, or sorted by time where there is an end.

    Raises:
        FailedError: some could not be read; the others are printed.
    """
    kept: list[loglines.Line] = []
    failures: list[errors.FailedError] = []
    async for text in logsources.merged(sources):
        if isinstance(text, errors.FailedError):
            failures.append(text)
            continue
        line = loglines.parse(text)
        if line is None or not chosen.passes(line):
            continue
        if follow:
            click.echo(loglines.render(line))
        else:
            kept.append(line)
    for line in sorted(kept, key=lambda line: line.time):
        click.echo(loglines.render(line))
    for failure in failures:
        progress.failure(str(failure))
    if failures:
        raise errors.FailedError(f"{len(failures)} of {len(sources)} logs could not be read")
