"""``penstock pull``, ``tag``, ``list`` and ``diff artifact``: artifacts in a registry."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cli import errors, examples, kindtree, loading, output, progress, session, table
from cli.artifacts import address, flags
from cli.artifacts.address import Address
from cli.creating.flags import words
from toolkit.remote.oci import oci

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from cli.artifacts import access, comparing, listing, packing, pulling
    from toolkit.remote.oci.publisher import Publisher
else:
    access = loading.Later("cli.artifacts.access")
    comparing = loading.Later("cli.artifacts.comparing")
    listing = loading.Later("cli.artifacts.listing")
    packing = loading.Later("cli.artifacts.packing")
    pulling = loading.Later("cli.artifacts.pulling")


@click.group("pull", cls=kindtree.AliasGroup, no_args_is_help=True)
def pull() -> None:
    """Pull an artifact from a registry, and write its files here."""


@click.group("tag", cls=kindtree.AliasGroup, no_args_is_help=True)
def tag() -> None:
    """Move tags to an artifact: promote it, or roll back to it."""


@click.group("list", cls=kindtree.AliasGroup, no_args_is_help=True)
def list() -> None:  # noqa: A001  # the verb's name
    """List the artifacts of a repository in a registry."""


@click.command(
    "artifact",
    epilog=examples.example("penstock pull artifact oci://ghcr.io/org/app:v1.0.0 -o ./deploy"),
)
@click.argument("url")
@click.option(
    "-o",
    "--output",
    "into",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory for the files; existing files are replaced.",
)
@flags.access
def pull_artifact(*, url: str, into: Path, **said: Any) -> None:
    """Pull oci://HOST/NAME:TAG or oci://HOST/NAME@DIGEST.

    Nothing is written before all of it was checked against its digest. No file is written outside
    the directory, and no symbolic link is made.
    """
    where = address.parse(url)

    async def work() -> None:
        async with _opened(said, where) as publisher:
            progress.action(f"pulling artifact from {where}")
            async with pulling.pulled(publisher.registry, where) as found:
                pulling.write(found.layer, into)
        for word, value in (("source", found.source), ("revision", found.revision)):
            if value:
                progress.success(f"{word} {value}")
        progress.success(f"digest {where.repository}@{found.digest}")
        progress.success(f"artifact content extracted to {into}")

    session.run_offline(work(), **flags.limit(said))


@click.command(
    "artifact",
    epilog=examples.example(
        "penstock tag artifact oci://ghcr.io/org/app:v1.0.0 --tag latest --tag stable"
    ),
)
@click.argument("url")
@click.option("--tag", "tags", multiple=True, required=True, help="Tag to move to the artifact.")
@flags.access
def tag_artifact(*, url: str, tags: tuple[str, ...], **said: Any) -> None:
    """Point tags at the artifact oci://HOST/NAME:TAG or oci://HOST/NAME@DIGEST.

    Its signatures hold for the digest, and so for every tag.
    """
    where = address.parse(url)
    named = words(tags)
    if not named:
        raise errors.UsageError("--tag: name at least one tag")
    for word in named:
        if not oci.is_tag(word):
            raise errors.UsageError(f"--tag: {word!r} cannot be a tag")

    async def work() -> None:
        async with _opened(said, where) as publisher:
            progress.action("tagging artifact")
            for word in named:
                await publisher.tag(where.repository, where.reference, word)
                progress.success(f"artifact tagged as {where.repository}:{word}")

    session.run_offline(work(), **flags.limit(said))


@click.command(
    "artifacts",
    epilog=examples.example("penstock list artifacts oci://ghcr.io/org/app --filter-semver '>=1'"),
)
@click.argument("url")
@click.option(
    "--filter-semver",
    "within",
    default="",
    metavar="RANGE",
    help="Only tags in this range of versions.",
)
@click.option(
    "--filter-regex",
    "pattern",
    default="",
    metavar="RE2",
    help="Only tags that match this pattern.",
)
@click.option("--no-header", is_flag=True, help="Do not print the header.")
@click.option(
    "-o", "--output", "fmt", type=click.Choice((*output.FORMATS, "wide")), help="Output format."
)
@flags.access
def list_artifacts(
    *, url: str, within: str, pattern: str, no_header: bool, fmt: str | None, **said: Any
) -> None:
    """List the tags of oci://HOST/NAME with digest and source, without those of signatures."""
    where = address.parse(url)
    if where.tag or where.digest:
        raise errors.UsageError("name the repository alone: oci://<host>/<name>")

    async def work() -> "tuple[listing.Listed, ...]":
        async with _opened(said, where) as publisher:
            tags = await publisher.registry.tags(where.repository)
            chosen = listing.chosen(tags, within=within, pattern=pattern)
            return await listing.artifacts(publisher.registry, where.repository, chosen)

    found = session.run_offline(work(), **flags.limit(said))
    if fmt == "name":
        click.echo("".join(f"oci://{one.url}\n" for one in found), nl=False)
    elif fmt in output.FORMATS:
        click.echo(output.encode([one.told() for one in found], str(fmt)), nl=False)
    else:
        wide = fmt == "wide"
        header = (*_HEADER, "CREATED") if wide else _HEADER
        rows = [one.row(wide=wide) for one in found]
        click.echo(table.render(header, rows, show_header=not no_header), nl=False)
        if not rows:
            progress.failure(f"no artifacts found in {where.repository}")


@click.command(
    "artifact",
    epilog=examples.example("penstock diff artifact oci://ghcr.io/org/app:v1.0.0 --path ./deploy"),
)
@click.argument("url")
@click.option("-f", "--path", required=True, help="Directory or file to compare; - is stdin.")
@flags.ignored
@flags.access
def diff_artifact(*, url: str, path: str, ignored: tuple[str, ...], **said: Any) -> None:
    """Compare local files with an artifact; exit code 1 if pushing them would change it.

    Files are compared by their content, whichever tool has packed them.
    """
    where = address.parse(url)
    stdin = sys.stdin.buffer
    files = packing.packed(path, stdin, ignored=ignored or packing.IGNORED, resolve=False)

    async def work() -> tuple[str, ...]:
        async with (
            _opened(said, where) as publisher,
            pulling.pulled(publisher.registry, where) as found,
        ):
            return comparing.differences(content.file, found.layer)

    with files as content:
        lines = session.run_offline(work(), **flags.limit(said))
    if lines:
        click.echo("\n".join(lines))
        progress.failure("there are differences")
        raise errors.DifferentError("there are differences")
    progress.success("no changes detected")


@click.command(
    "artifact",
    epilog=examples.example("penstock build artifact --path ./deploy --output artifact.tgz"),
)
@click.option("-p", "--path", required=True, help="Directory or file to pack; - is stdin.")
@click.option(
    "-o",
    "--output",
    "into",
    type=click.Path(path_type=Path, dir_okay=False),
    default="artifact.tgz",
    show_default=True,
    help="File to write; an existing file is replaced.",
)
@click.option("--resolve-symlinks", is_flag=True, help="Pack the targets of symbolic links.")
@flags.ignored
def build_artifact(
    *, path: str, into: Path, resolve_symlinks: bool, ignored: tuple[str, ...]
) -> None:
    """Pack local files as `push artifact` would, into a file, without a registry."""
    files = packing.packed(
        path, sys.stdin.buffer, ignored=ignored or packing.IGNORED, resolve=resolve_symlinks
    )
    progress.action(f"building artifact from {path}")
    with files as content:
        try:
            shutil.copyfile(content.file, into)
        except OSError as exc:
            raise errors.UsageError(f"--output: cannot write {into}: {exc.strerror}") from exc
        progress.success(f"artifact created at {into}, digest {content.digest}")


_HEADER: Final = ("ARTIFACT", "DIGEST", "SOURCE", "REVISION")

pull.add_command(pull_artifact)
pull.add_aliases(pull_artifact, ("artifacts",))
tag.add_command(tag_artifact)
tag.add_aliases(tag_artifact, ("artifacts",))
list.add_command(list_artifacts)
list.add_aliases(list_artifacts, ("artifact",))


def _opened(said: dict[str, Any], where: Address) -> "AbstractAsyncContextManager[Publisher]":
    return access.opened(access.Access.of(said), where.repository)
