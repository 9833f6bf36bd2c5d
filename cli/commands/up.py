"""``penstock up``, ``down`` and ``status``: all of Penstock on this machine."""

import asyncio
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli import errors, examples, loading, output, progress, table
from cli.stack import COMPONENTS, state
from cli.stack.probing import Probe
from toolkit.kube import rbac

if TYPE_CHECKING:
    from cli.installing import beside
    from cli.stack import cluster, stack
    from cli.stack import up as running
else:
    beside = loading.Later("cli.installing.beside")
    stack = loading.Later("cli.stack.stack")
    running = loading.Later("cli.stack.up")

_NAME = click.option(
    "--name",
    default="",
    help="Name of the `penstock up`, wherever its state directory is.",
)
_STATE = click.option(
    "--state",
    "directory",
    type=click.Path(path_type=Path),
    default=None,
    help="State directory; otherwise PENSTOCK_STATE or ~/.local/state/penstock.",
)


@click.command("up", epilog=examples.example("penstock up --flag kustomize=--concurrent=20"))
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Run against this cluster; otherwise an embedded control plane is started.",
)
@click.option("--context", default="", help="Context of the kubeconfig to use.")
@click.option("-n", "--namespace", default=rbac.NAMESPACE, show_default=True)
@click.option("--replicas", default=1, show_default=True, help="Processes per component.")
@click.option("--name", default="default", show_default=True, help="Name of the control plane.")
@click.option(
    "--flag",
    "flags",
    multiple=True,
    metavar="COMPONENT=--FLAG=VALUE",
    help="Extra flag of a component, such as kustomize=--concurrent=20.",
)
@click.option(
    "--gate/--no-gate",
    default=None,
    help="Also run the admission webhooks and the aggregated API: the default without "
    "--kubeconfig. With it, the API server must reach the loopback address of this machine.",
)
@click.option(
    "--liveness-period",
    type=click.FloatRange(min=0, min_open=True),
    default=Probe().period,
    show_default=True,
    help="Seconds between two liveness checks (/healthz) of each process.",
)
@click.option(
    "--liveness-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=Probe().timeout,
    show_default=True,
    help="Seconds within which a process must respond.",
)
@click.option(
    "--liveness-failures",
    type=click.IntRange(min=1),
    default=Probe().failures,
    show_default=True,
    help="Failures in a row after which a process is killed and started again.",
)
@click.option("--detach", is_flag=True, help="Return when Penstock runs; `penstock down` stops it.")
@_STATE
def up(  # noqa: PLR0913 -- one parameter per option
    *,
    directory: Path | None,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    replicas: int,
    name: str,
    flags: tuple[str, ...],
    gate: bool | None,
    liveness_period: float,
    liveness_timeout: float,
    liveness_failures: int,
    detach: bool,
) -> None:
    """Run Penstock here, each component as a process with its own service account."""
    home = directory or state.default_directory()
    gate = kubeconfig is None if gate is None else gate
    settings = running.Settings(
        directory=home.absolute(),
        kubeconfig=kubeconfig.absolute() if kubeconfig else None,
        context=context,
        name=name,
        options=stack.Options(
            namespace=namespace,
            replicas=replicas,
            components=stack.EVERYTHING if gate else stack.CONTROLLERS,
            flags=component_flags(flags),
            probe=Probe(
                period=liveness_period, timeout=liveness_timeout, failures=liveness_failures
            ),
            report=progress.waiting,
        ),
    )
    if detach:
        running.detach(command_line(settings), settings.directory, report=relay)
    else:
        with errors.ungrouped():
            asyncio.run(running.run(settings, require_free=beside.require_free, ready=_tell))


@click.command("down", epilog=examples.example("penstock down"))
@_NAME
@_STATE
def down(directory: Path | None, name: str) -> None:
    """Stop everything that `penstock up` started, including the embedded control plane."""
    home = _home(directory, name)
    if running.down(home):
        progress.success("stopped")
    else:
        progress.success(f"nothing runs in {home}")


@click.command("status", epilog=examples.example("penstock status"))
@click.option("-o", "--output", "fmt", type=click.Choice(("json", "yaml")), help="Output format.")
@_NAME
@_STATE
def status(directory: Path | None, name: str, *, fmt: str | None) -> None:
    """Show what `penstock up` runs; exit code 1 if nothing."""
    home = _home(directory, name)
    record = state.running(home)
    if record is None:
        raise errors.FailedError(f"nothing runs in {home}; `penstock up` starts it")
    rows = [
        (name, str(pid), str(home / "logs" / f"{name}.log"))
        for name, pid in record.processes.items()
    ]
    rows.insert(0, ("supervisor", str(record.pid), str(home / "up.log")))
    if fmt:
        processes = [dict(zip(("name", "pid", "log"), row, strict=True)) for row in rows]
        told = {
            "name": record.name,
            "phase": record.phase,
            "namespace": record.namespace,
            "kubeconfig": record.kubeconfig,
            "processes": processes,
            "addresses": record.addresses,
        }
        click.echo(output.encode(told, fmt), nl=False)
        return
    click.echo(table.render(("PROCESS", "PID", "LOG"), rows, show_header=True))
    if record.addresses:
        click.echo(table.render(("SERVES", "ADDRESS"), record.addresses.items(), show_header=True))
    click.echo(f"{record.phase}, namespace {record.namespace}")
    click.echo(f"export KUBECONFIG={shlex.quote(record.kubeconfig)}")


def _home(directory: Path | None, name: str) -> Path:
    if directory and name:
        raise errors.UsageError("--name and --state exclude each other")
    return directory or (state.directory_of(name) if name else state.default_directory())


def component_flags(pairs: tuple[str, ...]) -> Mapping[str, list[str]]:
    """Sort ``component=--flag=value`` by component.

    Raises:
        UsageError: a pair names no component.
    """
    found: dict[str, list[str]] = {}
    known = {component.name for component in COMPONENTS}
    for pair in pairs:
        name, _, flag = pair.partition("=")
        if name not in known or not flag.startswith("--"):
            raise errors.UsageError(
                f"--flag {pair!r} must be COMPONENT=--FLAG=VALUE; components are "
                + ", ".join(sorted(known))
            )
        found.setdefault(name, []).append(flag)
    return found


def command_line(settings: "running.Settings") -> list[str]:
    """Return the arguments of a Python process that does the same."""
    options = settings.options
    words = ["-m", "cli", "up", f"--state={settings.directory}", f"--namespace={options.namespace}"]
    words += [f"--replicas={options.replicas}", f"--name={settings.name}"]
    words += [f"--kubeconfig={settings.kubeconfig}"] if settings.kubeconfig else []
    words += [f"--context={settings.context}"] if settings.context else []
    words += [
        f"--liveness-period={options.probe.period}",
        f"--liveness-timeout={options.probe.timeout}",
        f"--liveness-failures={options.probe.failures}",
    ]
    words += ["--gate" if options.components == stack.EVERYTHING else "--no-gate"]
    return words + [
        f"--flag={name}={flag}" for name, flags in options.flags.items() for flag in flags
    ]


def _tell(chosen: "cluster.Cluster", addresses: Mapping[str, str]) -> None:
    progress.success("Penstock is running; Ctrl-C or `penstock down` stops it")
    if "receivers" in addresses:
        progress.success(f"Receivers are at {addresses['receivers']}")
    progress.success("`penstock status` shows its processes and all addresses")
    click.echo(f"export KUBECONFIG={shlex.quote(str(chosen.kubeconfig))}")
    if chosen.directory:
        folder = Path(chosen.kubectl).parent
        click.echo(f'export PATH={shlex.quote(str(folder))}:"$PATH"')


def relay(line: str) -> None:
    """Print the output of the detached process: its results to stdout, its progress to stderr."""
    click.echo(line, err=not line.startswith("export "))
