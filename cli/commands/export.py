"""``penstock export``: objects as manifests for a repository, without fields of servers."""

from typing import TYPE_CHECKING, Any, Final

import click

from cli import (
    completing,
    errors,
    examples,
    kindtree,
    loading,
    namespaces,
    output,
    progress,
    session,
    status,
)
from cli.commands import printing
from crds import IMAGE_REPOSITORY
from crds.kind import Kind
from toolkit.kube import errors as kube_errors
from toolkit.objects import GroupVersionKind, Json, dig

if TYPE_CHECKING:
    from toolkit.kube import secrets
else:
    secrets = loading.Later("toolkit.kube.secrets")

_METADATA: Final = ("name", "namespace", "labels", "annotations")
_CONTENTS: Final = ("apiVersion", "kind", "type", "spec", "data")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@click.group("export", cls=kindtree.AliasGroup, no_args_is_help=True)
def export() -> None:
    """Print objects as manifests for a repository."""


def _command(kind: Kind[Any], word: str) -> click.Command:
    @click.argument("name", default="", shell_complete=completing.of(kind))
    @click.option("--all", "everything", is_flag=True, help="All objects of the namespace.")
    @click.option(
        "-o",
        "--output",
        "fmt",
        type=click.Choice(("yaml", "json", "name")),
        default="yaml",
        help="Output format.",
    )
    @session.options
    def command(*, name: str, everything: bool, fmt: str, **arguments: Any) -> None:
        with_credentials = arguments.pop("with_credential", False)
        if bool(name) == everything:
            raise errors.UsageError(f"name one {kind.kind} object, or use --all")

        async def work(opened: session.Session) -> list[Json]:
            found = await chosen(opened, kind, name)
            secrets = [await _secrets(opened, obj) for obj in found] if with_credentials else []
            return [*found, *(secret for several in secrets for secret in several)]

        found = [exported(obj) for obj in session.run(session.connection(arguments), work)]
        if fmt == "yaml":
            printing.show(found)
        else:
            click.echo(output.render(found, fmt, single=bool(name)), nl=False)

    if status.is_source(kind) or kind is IMAGE_REPOSITORY:
        command = click.option(
            "--with-credential",
            "--with-credentials",
            "with_credential",
            is_flag=True,
            help="Also print the Secrets that the object names.",
        )(command)
    spelled = kindtree.spelled(kind)
    return click.command(
        word,
        help=f"Print {kind.kind} objects as manifests.",
        epilog=examples.example(
            f"penstock export {spelled} apps > apps.yaml", f"penstock export {spelled} --all"
        ),
    )(command)


async def chosen(opened: session.Session, kind: Kind[Any], name: str) -> list[Json]:
    """Return the named object, or all objects of the namespace.

    Raises:
        UsageError: there is no object of that name, or no such namespace.
    """
    gvk = GroupVersionKind(*kind.gvk)
    if not name:
        found = await opened.api.list(gvk, opened.namespace)
        if not found:
            await namespaces.require(opened)
            progress.failure(
                f'no {kind.kind} objects found in "{opened.namespace}" namespace; '
                "choose another one with --namespace"
            )
        return found
    try:
        return [await opened.api.get(gvk, name, opened.namespace)]
    except kube_errors.NotFoundError as exc:
        raise errors.UsageError(
            f'{kind.kind} object {name!r} not found in "{opened.namespace}" namespace; '
            "choose another one with --namespace"
        ) from exc


async def _secrets(opened: session.Session, obj: Json) -> list[Json]:
    named = (dig(obj, "spec", field, "name", default="") for field in _REFERENCES)
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            **await opened.api.get(secrets.SECRET, name, opened.namespace),
        }
        for name in dict.fromkeys(filter(None, named))
    ]


_REFERENCES: Final = ("secretRef", "certSecretRef", "proxySecretRef")


def exported(obj: Json) -> Json:
    """Return the manifest: no status, and only names, labels and annotations as metadata.

    kubectl's annotation with the last applied object is left out.
    """
    metadata = {key: obj["metadata"][key] for key in _METADATA if obj["metadata"].get(key)}
    notes = {k: v for k, v in metadata.pop("annotations", {}).items() if k != _LAST_APPLIED}
    if notes:
        metadata["annotations"] = notes
    kept = {key: obj[key] for key in _CONTENTS if key in obj}
    return {
        "apiVersion": kept.pop("apiVersion"),
        "kind": kept.pop("kind"),
        "metadata": metadata,
    } | kept


kindtree.attach_artifacts(export, kindtree.attach(export, _command))
