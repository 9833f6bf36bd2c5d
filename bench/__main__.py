"""Run the bench: ``python -m bench --n 200``.

Without ``--kubeconfig`` it starts a fresh embedded control plane and Penstock on it. With one, it
measures whatever controllers serve the kinds there: ``--pid`` and ``--metrics`` name them.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click

from bench import measure, parts, processes, report, target, work
from bench.given import Given
from cli import age, errors, progress
from cli.stack import up
from toolkit.artifact import scratch
from toolkit.errors import PenstockError
from toolkit.kube import client, config


@click.command("bench", context_settings={"show_default": True})
@click.option(
    "--part", type=click.Choice(tuple(parts.PARTS)), default="kustomizations", help="What of."
)
@click.option("--n", "count", default=200, help="Objects of each kind.")
@click.option("--heals", default=50, help="Objects to edit by hand.")
@click.option("--interval", type=age.DURATION, default="30s", help="Of the interval no-op.")
@click.option("--pace", default=200.0, help="Requests a second, of admission.")
@click.option("--kustomize", is_flag=True, help="Give each directory a kustomization.yaml.")
@click.option("--only", multiple=True, metavar="PHASE", help="Phases after `create`.")
@click.option("--label", multiple=True, metavar="KEY=VALUE", help="Label of the objects created.")
@click.option("--patience", type=age.DURATION, default="15m", help="For one phase.")
@click.option("--seconds", type=age.DURATION, default="10m", help="Of the soak.")
@click.option("--curve", type=click.Path(path_type=Path), help="CSV file for the soak's samples.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Measure this cluster.")
@click.option("--pid", multiple=True, type=int, help="Root of a controller's process tree.")
@click.option("--api-pid", multiple=True, type=int, help="The same of the control plane.")
@click.option("--metrics", multiple=True, metavar="URL", help="Metrics of a controller.")
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table")
def main(**arguments: Any) -> None:
    """Measure N objects of a kind through their whole life."""
    try:
        with errors.ungrouped():
            interrupted = asyncio.run(up.interruptible(_run(**arguments)))
    except PenstockError as exc:
        progress.failure(errors.explain(exc))
        sys.exit(1)
    sys.exit(130 if interrupted else 0)


async def _run(
    *, kubeconfig: Path | None, part: str, only: tuple[str, ...], output: str, **settings: Any
) -> None:
    watched = measure.Watched(
        controllers=settings.pop("pid"),
        control_plane=settings.pop("api_pid"),
        metrics=settings.pop("metrics"),
    )
    labels = dict(pair.split("=", 1) for pair in settings.pop("label"))
    plan = work.Plan(labels=labels, **settings)
    chosen = parts.PARTS[part]
    done: list[measure.Phase] = []
    try:
        async with _bench(kubeconfig, watched, plan, chosen) as bench:
            for phase in chosen.phases(only):
                progress.action(phase.__name__)
                measured = await phase(bench)
                done += [measured] if isinstance(measured, measure.Phase) else measured
    finally:
        title = chosen.title.format(count=plan.count)
        if output == "json":
            click.echo(json.dumps(report.document(done, count=plan.count), indent=2))
        else:
            click.echo(report.render(done, title=title, columns=chosen.columns), nl=False)


@asynccontextmanager
async def _bench(
    kubeconfig: Path | None, watched: measure.Watched, plan: work.Plan, part: parts.Part
) -> AsyncIterator[Any]:
    with scratch.claimed() as root:
        async with (
            target.running(kubeconfig, watched, root, components=part.components) as (
                cluster,
                chosen,
            ),
            client.Client.open(config.from_environment(str(cluster))) as api,
            processes.Peak.watch(chosen.controllers) as peak,
            part.prepared(
                Given(api=api, plan=plan, meter=measure.Meter(api, chosen, peak), root=root)
            ) as bench,
        ):
            yield bench


if __name__ == "__main__":
    main()
