"""The parts of the bench, by the name that ``--part`` takes."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from bench import (
    admission,
    events,
    helmreleases,
    inventories,
    kustomizations,
    large,
    report,
    scanning,
    soak,
    sources,
    straight,
)
from bench.given import Given
from bench.measure import Phase
from cli.stack import stack
from toolkit.errors import PenstockError

Step = Callable[[Any], Awaitable[Phase | Sequence[Phase]]]
"""Measures one phase, or several of the same sort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is prepared, and the phases that are measured with it, the first of them always.

    ``components`` are what runs of Penstock where the bench starts it.
    """

    title: str
    prepared: Callable[[Given], AbstractAsyncContextManager[Any]]
    steps: Sequence[Step]
    columns: Sequence[report.Column] = report.WHOLE
    components: tuple[str, ...] = stack.EVERYTHING

    def phases(self, only: Sequence[str]) -> list[Step]:
        """Return the first phase and those that are named; all if none is.

        Raises:
            PenstockError: there is no phase of that name.
        """
        names = [step.__name__ for step in self.steps]
        for name in only:
            if name not in names:
                raise PenstockError(f"no phase '{name}'; there are {', '.join(names)}")
        chosen = {names[0], *(only or names)}
        return [step for step in self.steps if step.__name__ in chosen]


PARTS: Final = MappingProxyType(
    {
        # One monorepo, N Kustomizations of one directory each.
        "kustomizations": Part(
            title="{count} Kustomizations of 4 objects, wait: true",
            prepared=kustomizations.prepared,
            steps=kustomizations.PHASES,
        ),
        # One repository, one Kustomization of N ConfigMaps.
        "large": Part(
            title="One Kustomization of {count} ConfigMaps",
            prepared=large.prepared,
            steps=large.PHASES,
        ),
        # One repository of charts, N HelmReleases of one chart.
        "helm": Part(
            title="{count} HelmReleases of a chart of 4 objects",
            prepared=helmreleases.prepared,
            steps=helmreleases.PHASES,
        ),
        # A registry, N OCIRepositories and N HelmCharts.
        "sources": Part(
            title="{count} OCIRepositories and {count} HelmCharts",
            prepared=sources.prepared,
            steps=sources.PHASES,
        ),
        # A registry, N ImageRepositories of 1,000 tags with an ImagePolicy each.
        "images": Part(
            title="{count} ImageRepositories of 1,000 tags and their ImagePolicies",
            prepared=scanning.prepared,
            steps=scanning.PHASES,
            components=("image", "webhooks"),
        ),
        # N dry-runs of each thing that plugins are asked about, at a steady pace.
        "admission": Part(
            title="{count} dry-runs a row, and as many in turns that no plugin is asked about",
            prepared=admission.prepared,
            steps=(straight.straight, *admission.PHASES),
            columns=report.COMPARED,
            components=("webhooks",),
        ),
        # N inventories through the aggregator, beside N ConfigMaps of the API server's own.
        "inventories": Part(
            title="{count} inventories, beside {count} ConfigMaps",
            prepared=inventories.prepared,
            steps=inventories.PHASES,
            components=("apiserver",),
        ),
        # N events to ten Providers, faster than they can be delivered and not.
        "events": Part(
            title="{count} events to 10 Providers",
            prepared=events.prepared,
            steps=events.PHASES,
            columns=report.DELIVERED,
            components=("notification",),
        ),
        # Commits, readers and watchers for a long time, for the curve of each process' memory.
        "soak": Part(
            title="{count} Kustomizations of 3 repositories, one commit a second",
            prepared=soak.prepared,
            steps=soak.PHASES,
        ),
    }
)
