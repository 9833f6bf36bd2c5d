"""``penstock build`` and ``penstock diff``: a Kustomization on local files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import structs

from cli import errors, examples, kindtree, loading, output, progress, session
from cli.commands import artifacts, plan
from cli.local.workspace import Workspace
from crds import HELM_RELEASE, KUSTOMIZATION
from toolkit.objects import Json, ObjectKey

if TYPE_CHECKING:
    from cli.local import build as local_build
    from cli.local import diff as local_diff
    from cli.local import encrypted
    from cli.local import kustomization as source
    from controllers.kustomize import inputs
    from toolkit.apply.diff import Finding
    from toolkit.kube import secrets
else:
    local_build = loading.Later("cli.local.build")
    local_diff = loading.Later("cli.local.diff")
    encrypted = loading.Later("cli.local.encrypted")
    source = loading.Later("cli.local.kustomization")
    inputs = loading.Later("controllers.kustomize.inputs")
    secrets = loading.Later("toolkit.kube.secrets")

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to build: a name, local directories, and perhaps the Kustomization from a file."""

    name: str
    path: Path
    mounts: dict[str, Path]
    file: Path | None
    strict: bool


@click.group("build", cls=kindtree.AliasGroup, no_args_is_help=True)
def build() -> None:
    """Build local files as the controller would."""


@click.group("diff", cls=kindtree.AliasGroup, no_args_is_help=True)
def diff() -> None:
    """Show what applying local files, or a stored revision, would change."""


def _local_options(function: Function) -> Function:
    for option in (
        click.option(
            "--strict-substitute",
            "strict",
            is_flag=True,
            help="Fail where a variable has no value and no default, with or without a cluster.",
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
        click.argument("name"),
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
@click.option("--dry-run", is_flag=True, help="Ask no cluster; needs --kustomization-file.")
@session.options
@_local_options
def build_kustomization(*, dry_run: bool, **arguments: Any) -> None:
    """Print what a Kustomization would apply, as YAML."""
    connection, request = session.connection(arguments), _request(**arguments)
    if dry_run:
        objects = _offline(connection, request)
    else:

        async def work(opened: session.Session) -> tuple[Json, ...]:
            _, _, built = await _build(opened, request)
            return built

        objects = session.run(connection, work)
    shown = (output.to_yaml(encrypted.stand_in(obj)) for obj in objects)
    click.echo("---\n".join(shown), nl=False)


@click.command(
    KUSTOMIZATION.singular,
    epilog=examples.example("penstock diff kustomization apps --path ./clusters/apps"),
)
@session.options
@_local_options
def diff_kustomization(**arguments: Any) -> None:
    """Show what applying local files would change; exit code 1 if anything would.

    Every object is dry-run on the server under the Kustomization's field manager. Values of
    Secrets are compared and never shown. No key is needed: of an encrypted file that changed,
    its digest and the names of its values are told.
    """
    connection, request = session.connection(arguments), _request(**arguments)

    async def work(opened: session.Session) -> "tuple[Finding, ...]":
        live, obj, built = await _build(opened, request)
        return await local_diff.diff(opened.api, live, obj, built)

    found = session.run(connection, work)
    for finding in found:
        click.echo(local_diff.text(finding))
    if found:
        progress.failure("there are differences")
        raise errors.DifferentError("there are differences")


async def _build(opened: session.Session, request: Request) -> tuple[Json, Any, tuple[Json, ...]]:
    """Return the Kustomization as JSON and decoded, and what it makes of the local files."""
    raw = await _kustomization(opened, request)
    obj = source.decode(raw)
    # Keys are never read here: ciphertext stays masked.
    readable = structs.replace(obj, spec=structs.replace(obj.spec, decryption=None))
    gathered = await inputs.gather(readable, secrets.Secrets(opened.api))
    built = await local_build.build(
        obj,
        local_build.Inputs(
            workspace=Workspace.find(request.path, spec_path=obj.spec.path),
            mounts=request.mounts,
            variables=gathered.variables,
            strict=request.strict,
            seconds=opened.timeout,
        ),
    )
    return raw, obj, built


async def _kustomization(opened: session.Session, request: Request) -> Json:
    """Return the live object; with a file, that one's spec and the live one's status."""
    if request.file is None:
        return await source.live(opened, request.name)
    raw = source.from_file(request.file, ObjectKey(opened.namespace, request.name))
    try:
        live = await source.live(opened, request.name)
    except errors.UsageError:
        return raw
    return {**raw, "status": live.get("status") or {}}


def _offline(connection: session.Connection, request: Request) -> tuple[Json, ...]:
    if request.file is None:
        raise errors.UsageError("--dry-run asks no cluster and needs --kustomization-file")
    namespace = session.namespace(connection.namespace, "")
    obj = source.decode(source.from_file(request.file, ObjectKey(namespace, request.name)))
    chosen = local_build.Inputs(
        workspace=Workspace.find(request.path, spec_path=obj.spec.path),
        mounts=request.mounts,
        strict=request.strict,
        seconds=connection.timeout,
    )
    return session.run_offline(local_build.build(obj, chosen))


def _request(*, mounts: tuple[str, ...], **fields: Any) -> Request:
    pairs = [pair.partition("=") for pair in mounts]
    if not all(path and directory for path, _, directory in pairs):
        raise errors.UsageError("--mount must be PATH=DIRECTORY, as in spec.sourceRefs")
    return Request(mounts={path: Path(where) for path, _, where in pairs}, **fields)


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
