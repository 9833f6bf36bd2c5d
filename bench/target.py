"""What is measured: a fresh control plane with Penstock on it, or what is there already."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from bench import measure
from cli import progress
from cli.stack import cluster, stack
from toolkit.objects import dig

_EVENTS = "notification"
_COUNTED = ("kube-apiserver", "etcd")


@asynccontextmanager
async def running(
    kubeconfig: Path | None,
    watched: measure.Watched,
    root: Path,
    *,
    components: tuple[str, ...],
) -> AsyncIterator[tuple[Path, measure.Watched]]:
    """Give an administrator's kubeconfig and what to look at."""
    if kubeconfig is not None:
        yield kubeconfig, watched
        return
    options = stack.Options(components=components, report=progress.waiting)
    async with (
        cluster.embedded(
            f"bench-{root.name.rpartition('-')[2].replace('_', '0').lower()}",
            report=progress.waiting,
        ) as plane,
        stack.start(plane.kubeconfig, state=root / "state", options=options) as penstock,
    ):
        mine = replace(
            watched,
            controllers=tuple(penstock.pids().values()),
            control_plane=_control_plane(plane),
            metrics=tuple(penstock.metrics(name) for name in options.components),
            events=f"http://{penstock.events_address}/" if _EVENTS in components else "",
        )
        yield plane.kubeconfig, mine


def _control_plane(plane: cluster.Cluster) -> tuple[int, ...]:
    """Return the process ids of API server and etcd, as the instance's state tells them."""
    if plane.directory is None:
        return ()
    state = msgspec.json.decode((plane.directory / "state.json").read_bytes())
    return tuple(int(dig(state, "components", name, "pid")) for name in _COUNTED)
