"""``penstock debug``: the inputs of a controller, computed as the controller does.

Values of Secrets are printed: that is the purpose of the command.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from cli import completing, decoding, errors, examples, kindtree, loading, output, session
from cli.commands import export
from crds import HELM_RELEASE, KUSTOMIZATION
from crds.kind import Kind

if TYPE_CHECKING:
    from controllers.helm import inputs as helm_inputs
    from controllers.kustomize import inputs as kustomize_inputs
    from toolkit.kube import secrets
else:
    helm_inputs = loading.Later("controllers.helm.inputs")
    kustomize_inputs = loading.Later("controllers.kustomize.inputs")
    secrets = loading.Later("toolkit.kube.secrets")


@click.group("debug", cls=kindtree.AliasGroup, no_args_is_help=True)
def debug() -> None:
    """Show the status, history and inputs of an object; may print Secrets."""


async def _variables(opened: session.Session, obj: Any) -> str:
    if obj.spec.post_build is None:
        raise errors.FailedError(
            f"Kustomization {obj.metadata.namespace}/{obj.metadata.name} has no variables: it has "
            "no spec.postBuild"
        )
    found = await kustomize_inputs.gather(_bare(obj), secrets.Secrets(opened.api))
    lines = sorted((name, value.replace("\n", "")) for name, value in found.variables.items())
    return "".join(f"{name}={value}\n" for name, value in lines)


def _bare(obj: Any) -> Any:
    """Return the object without decryption keys, which its variables do not need."""
    spec = msgspec.structs.replace(obj.spec, decryption=None, kube_config=None)
    return msgspec.structs.replace(obj, spec=spec)


async def _values(opened: session.Session, obj: Any) -> str:
    gathered = await helm_inputs.gather(obj, secrets.Secrets(opened.api))
    composed = await helm_inputs.compose(obj, gathered)
    return output.to_yaml(dict(composed.values))


Show = Callable[[session.Session, Any], Awaitable[str]]


def _command(kind: Kind[Any], flag: str, what: str, show: Show) -> click.Command:
    """Return the command ``debug KIND NAME``; ``flag`` shows ``what``."""

    @click.argument("name", shell_complete=completing.of(kind))
    @click.option("--show-status", "status", is_flag=True, help="Print the status.")
    @click.option("--show-history", "history", is_flag=True, help="Print the history.")
    @click.option(f"--{flag}", "composed", is_flag=True, help=f"Print {what}.")
    @session.options
    def command(
        *, name: str, status: bool, history: bool, composed: bool, **arguments: Any
    ) -> None:
        if status + history + composed != 1:
            raise errors.UsageError(f"use one of --show-status, --show-history and --{flag}")

        async def work(opened: session.Session) -> str:
            (live,) = await export.chosen(opened, kind, name)
            said = live.get("status") or {}
            if composed:
                return await show(opened, decoding.decode(kind, live))
            return output.to_yaml(said if status else said.get("history") or [])

        click.echo(session.run(session.connection(arguments), work), nl=False)

    make = click.command(
        kind.singular,
        help=f"Show the status of a {kind.kind}, its history, or {what}.",
        epilog=examples.example(
            f"penstock debug {kind.short_names[0]} apps --show-status",
            f"penstock debug {kind.short_names[0]} apps --{flag}",
        ),
    )
    return make(command)


_COMMANDS: Final = (
    (KUSTOMIZATION, "show-vars", "the variables of its substitutions", _variables),
    (HELM_RELEASE, "show-values", "the values of its release", _values),
)
for _kind, _flag, _what, _show in _COMMANDS:
    _made = _command(_kind, _flag, _what, _show)
    debug.add_command(_made)
    debug.add_aliases(_made, kindtree.names(_kind))
