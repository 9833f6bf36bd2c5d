"""``penstock build`` and ``penstock diff``: a Kustomization on local files."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli import completing, errors, examples, kindtree, loading, output, progress, session
from cli.commands import artifacts, plan
from cli.creating.flags import words
from crds import HELM_RELEASE, KUSTOMIZATION

if TYPE_CHECKING:
    from cli.local import diff as local_diff
    from cli.local import encrypted, units
    from cli.local.units import Request, Unit
    from cli.trees import entering
    from toolkit.apply.diff import Finding
    from toolkit.kube import remote
else:
    local_diff = loading.Later("cli.local.diff")
    encrypted = loading.Later("cli.local.encrypted")
    units = loading.Later("cli.local.units")
    entering = loading.Later("cli.trees.entering")
    remote = loading.Later("toolkit.kube.remote")

Function = TypeVar("Function", bound=Callable[..., Any])


@click.group("build", cls=kindtree.AliasGroup, no_args_is_help=True)
def build() -> None:
    """Build local files as the controller would."""


@click.group("diff", cls=kindtree.AliasGroup, no_args_is_help=True)
def diff() -> None:
    """Show what applying local files, or a stored revision, would change."""


def _local_options(function: Function) -> Function:
    for option in (
        click.option(
            "--in-memory-build",
            is_flag=True,
            hidden=True,
            expose_value=False,
            help="No effect: builds write no file.",
        ),
        click.option(
            "--ignore-paths",
            "ignored",
            multiple=True,
            metavar="PATTERNS",
            help="Files below --path to leave out, as .gitignore patterns with commas.",
        ),
        click.option(
            "--local-sources",
            "sources",
            multiple=True,
            metavar="KIND/NAMESPACE/NAME=DIRECTORY",
            help="Local directory of a source; not needed for the source of --path.",
        ),
        click.option(
            "-r",
            "--recursive",
            is_flag=True,
            help="Also build the Kustomizations that are applied.",
        ),
        click.option(
            "--strict-substitute",
            "strict",
            is_flag=True,
            help="Fail if a variable has neither a value nor a default, with or without a cluster.",
        ),
        click.option(
            "--kustomization-file",
            "file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Take the Kustomization from this file instead of the cluster.",
        ),
        click.option(
            "--mount",
            "mounts",
            multiple=True,
            metavar="PATH=DIRECTORY",
            help="Local directory for one of spec.sourceRefs.",
        ),
        click.option(
            "--path",
            type=click.Path(path_type=Path),
            required=True,
            help="Directory to build; files beside it are found up to the one that holds .git.",
        ),
        click.argument("name", shell_complete=completing.of(KUSTOMIZATION)),
    ):
        function = option(function)
    return function


@click.command(
    KUSTOMIZATION.singular,
    epilog=examples.example(
        "penstock build kustomization apps --path ./clusters/apps --dry-run \\",
        "  --kustomization-file ./clusters/apps.yaml",
    ),
)
@click.option("--dry-run", is_flag=True, help="Contact no cluster; needs --kustomization-file.")
@session.options
@_local_options
def build_kustomization(*, dry_run: bool, **arguments: Any) -> None:
    """Print what a Kustomization would apply, as YAML."""
    connection, request = session.connection(arguments), _request(**arguments)
    if dry_run:
        namespace = session.namespace(connection.namespace, "")
        built = session.run_offline(
            units.offline(request, namespace, connection.timeout),
            seconds=connection.timeout,
            silent="the build did not end",
        )
    else:
        built = session.run(connection, lambda opened: units.online(opened, request))
    objects = (obj for unit in built for obj in unit.objects)
    shown = (output.to_yaml(encrypted.stand_in(obj)) for obj in objects)
    click.echo("---\n".join(shown), nl=False)


@click.command(
    KUSTOMIZATION.singular,
    epilog=examples.example("penstock diff kustomization apps --path ./clusters/apps"),
)
@click.option(
    "--progress-bar/--no-progress-bar",
    hidden=True,
    expose_value=False,
    help="No effect: there is none.",
)
@click.option(
    "--ignore-not-found",
    is_flag=True,
    hidden=True,
    expose_value=False,
    help="No effect: a Kustomization from a file is new where the cluster has none.",
)
@session.options
@_local_options
def diff_kustomization(**arguments: Any) -> None:
    """Show what applying local files would change; exit code 1 if anything would.

    Every object is sent as a dry-run under the Kustomization's field manager. Values of Secrets are
    compared and never shown. No key is needed: for an encrypted file that changed, the output has
    its digest and the names of its values.
    """
    connection, request = session.connection(arguments), _request(**arguments)

    async def work(opened: session.Session) -> "list[Finding]":
        built = await units.online(opened, request)
        return [each for unit in built for each in await _findings(opened, unit)]

    found = session.run(connection, work)
    for finding in found:
        click.echo(local_diff.text(finding))
    if found:
        progress.failure("there are differences")
        raise errors.DifferentError("there are differences")


async def _findings(opened: session.Session, unit: "Unit") -> "tuple[Finding, ...]":
    """Ask the cluster that a Kustomization applies to, with the user's rights there."""
    if unit.obj.spec.kube_config is None:
        return await local_diff.diff(opened.api, unit.raw, unit.obj, unit.objects)
    async with (
        remote.RemoteClients(opened.api) as remotes,
        entering.entered(remotes, unit.obj.metadata.namespace, unit.raw) as there,
    ):
        return await local_diff.diff(there, unit.raw, unit.obj, unit.objects)


def _request(
    *, mounts: tuple[str, ...], sources: tuple[str, ...], ignored: tuple[str, ...], **fields: Any
) -> "Request":
    pairs = [pair.partition("=") for pair in mounts]
    if not all(path and directory for path, _, directory in pairs):
        raise errors.UsageError("--mount must be PATH=DIRECTORY, as in spec.sourceRefs")
    return units.Request(
        mounts={path: Path(where) for path, _, where in pairs},
        sources=units.sources(sources),
        ignored=tuple(words(ignored)),
        **fields,
    )


build.add_command(build_kustomization)
build.add_aliases(build_kustomization, kindtree.names(KUSTOMIZATION))
build.add_command(artifacts.build_artifact)
build.add_aliases(artifacts.build_artifact, ("artifacts",))
diff.add_command(diff_kustomization)
diff.add_aliases(diff_kustomization, kindtree.names(KUSTOMIZATION))
diff.add_command(plan.diff_helmrelease)
diff.add_aliases(plan.diff_helmrelease, kindtree.names(HELM_RELEASE))
diff.add_command(artifacts.diff_artifact)
diff.add_aliases(artifacts.diff_artifact, ("artifacts",))
diff.add_command(plan.diff_inventory)
diff.add_aliases(plan.diff_inventory, ("inventories", "inv"))
