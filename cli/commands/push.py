"""``penstock push``: push local files to a registry, and sign them if requested."""

import sys
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from cli import examples, kindtree, loading, output, progress, session
from cli.artifacts import address, flags

if TYPE_CHECKING:
    from cli.artifacts import access, document, packing, pushing, signers
else:
    access = loading.Later("cli.artifacts.access")
    document = loading.Later("cli.artifacts.document")
    packing = loading.Later("cli.artifacts.packing")
    pushing = loading.Later("cli.artifacts.pushing")
    signers = loading.Later("cli.artifacts.signers")


@click.group("push", cls=kindtree.AliasGroup, no_args_is_help=True)
def push() -> None:
    """Push local files to a registry as an artifact, and sign it."""


@click.command(
    "artifact",
    epilog=examples.example(
        "penstock push artifact oci://ghcr.io/org/app:$(git rev-parse --short HEAD) \\",
        '  --path ./deploy --source "$(git config remote.origin.url)" \\',
        '  --revision "main@sha1:$(git rev-parse HEAD)" --sign',
        "kustomize build . | penstock push artifact oci://ghcr.io/org/app:v1.0.0 -f - \\",
        "  --source https://github.com/org/app --revision v1.0.0 --key signing.pem",
    ),
)
@click.argument("url")
@click.option("-f", "--path", required=True, help="Directory or file to push; - is standard input.")
@click.option("--source", required=True, help="Where the files come from, such as a Git URL.")
@click.option(
    "--revision",
    required=True,
    help="Revision of the files at the source, such as main@sha1:<commit>.",
)
@click.option(
    "-a",
    "--annotations",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Additional annotations of the artifact.",
)
@click.option(
    "--reproducible",
    is_flag=True,
    help="Set the date to 1970, so that equal files have an equal digest.",
)
@click.option(
    "--resolve-symlinks", "resolve", is_flag=True, help="Include the targets of symbolic links."
)
@click.option("-o", "--output", "fmt", type=click.Choice(output.FORMATS), help="Output format.")
@flags.ignored
@flags.signing
@flags.access
def push_artifact(*, fmt: str | None, **said: Any) -> None:
    """Push a directory or a file to oci://HOST/NAME:TAG.

    With --sign or --key the artifact is signed before the tag is moved to it: an OCIRepository
    with spec.verify never sees the tag at something unsigned.

    The login is that of docker's config.json, unless --creds or --provider gives another.
    """
    pushed = _push(said)
    if fmt == "name":
        click.echo(f"oci://{pushed.by_digest}")
    elif fmt:
        click.echo(output.encode(pushed.told(), fmt), nl=False)
    else:
        progress.success(f"artifact successfully pushed to {pushed.by_digest}")


push.add_command(push_artifact)
push.add_aliases(push_artifact, ("artifacts",))


def _push(said: dict[str, Any]) -> "pushing.Pushed":
    where = address.require_tag(address.parse(said["url"]), said["url"])
    timeout: float = said["timeout"]
    chosen = signers.Signing(**{field.name: said[field.name] for field in fields(signers.Signing)})
    sign = signers.signer(chosen, seconds=timeout)
    annotations = document.annotations(
        said["source"],
        said["revision"],
        said["pairs"],
        now=document.EPOCH if said["reproducible"] else datetime.now(UTC),
    )
    files = packing.packed(
        said["path"],
        sys.stdin.buffer,
        ignored=said["ignored"] or packing.IGNORED,
        resolve=said["resolve"],
    )

    async def work() -> "pushing.Pushed":
        async with access.opened(access.Access.of(said), where.repository) as publisher:
            progress.action(f"pushing artifact to {where}")
            pushed = await pushing.push(publisher, where, content, annotations, sign=sign)
        if sign is not None:
            progress.success("artifact signed")
        return pushed

    with files as content:
        return session.run_offline(work(), **flags.limit(said))
