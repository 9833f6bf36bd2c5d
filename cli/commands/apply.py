"""``penstock apply``: manifests as kubectl applies them, encrypted Secrets too."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import yaml

from cli import errors, examples, loading, progress, session
from toolkit.decrypt.errors import DecryptionError
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.objects import Json, dig, gvk_of, ref_of

if TYPE_CHECKING:
    from toolkit.apply import masking
    from toolkit.decrypt import envelope, sops
else:
    masking = loading.Later("toolkit.apply.masking")
    envelope = loading.Later("toolkit.decrypt.envelope")
    sops = loading.Later("toolkit.decrypt.sops")

MANAGER: Final = "kubectl"
"""Field manager of ``kubectl apply --server-side``: the two may take turns."""

SUFFIXES: Final = (".yaml", ".yml", ".json")


@click.command("apply", epilog=examples.example("penstock apply -f secret.sops.yaml --dry-run"))
@click.option(
    "-f",
    "--filename",
    "filenames",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    required=True,
    help="File, or directory of files, with manifests.",
)
@click.option("--dry-run", is_flag=True, help="Send a dry-run to the server; write nothing.")
@click.option("--force-conflicts", is_flag=True, help="Take fields that others manage.")
@session.options
def apply(
    *, filenames: tuple[Path, ...], dry_run: bool, force_conflicts: bool, **arguments: Any
) -> None:
    """Apply manifests server-side; SOPS-encrypted Secrets are decrypted at admission.

    An encrypted file must be the manifest of one Secret, with the namespace that it is for. It is
    sent as it is: nothing is decrypted on this machine, and nothing of it is shown. You need the
    verb `decrypt` on the Secret with the keys.
    """
    connection = session.connection(arguments)
    objects = [obj for name in filenames for file in _files(name) for obj in _manifests(file)]

    async def work(opened: session.Session) -> None:
        failed = False
        for obj in objects:
            try:
                click.echo(await _apply(opened, obj, dry_run=dry_run, force=force_conflicts))
            except ApiError as exc:
                failed = True
                progress.failure(str(masking.failure(obj, exc, step="apply")))
        if failed:
            raise errors.DifferentError("not everything was applied")

    session.run(connection, work)


async def _apply(opened: session.Session, obj: Json, *, dry_run: bool, force: bool) -> str:
    """Apply one object and return the result in the form of kubectl."""
    ref = ref_of(obj)
    resource = await opened.api.mapper.resource(ref.gvk)
    if resource.namespaced and not ref.namespace:
        obj = {**obj, "metadata": {**obj["metadata"], "namespace": opened.namespace}}
        ref = ref_of(obj)
    try:
        before = dig(await opened.api.get(ref.gvk, ref.name, ref.namespace), *_VERSION)
    except NotFoundError:
        before = None
    answer = await opened.api.apply(obj, manager=MANAGER, force=force, dry_run=True)
    if envelope.CARRIER in (answer.object.get("data") or {}):
        raise errors.FailedError(
            f"{ref} was not decrypted: this cluster has no webhook that does, or it is not armed"
        )
    if not dry_run:
        answer = await opened.api.apply(obj, manager=MANAGER, force=force)
    same = dig(answer.object, *_VERSION) == before and not dry_run
    done = "created" if answer.created else "unchanged" if same else "configured"
    return f"{ref} {done}{' (server dry run)' if dry_run else ''}"


_VERSION: Final = ("metadata", "resourceVersion")


def _files(name: Path) -> Iterator[Path]:
    if name.is_dir():
        yield from sorted(file for file in name.iterdir() if file.suffix in SUFFIXES)
    else:
        yield name


def _manifests(file: Path) -> Iterator[Json]:
    """Yield the objects of a file; an encrypted one becomes its carrier."""
    raw = file.read_bytes()
    try:
        if sops.is_encrypted(raw):
            yield envelope.make(raw)
            return
        documents = list(yaml.safe_load_all(raw))
    except DecryptionError as exc:
        raise errors.UsageError(f"{file} cannot be sent encrypted: {exc}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise errors.UsageError(f"{file} is not YAML") from None
    for document in documents:
        if document is None:
            continue
        named = isinstance(document, dict) and dig(document, "metadata", "name")
        if not named or not gvk_of(document).kind:
            raise errors.UsageError(f"{file} holds something that is not an object with a name")
        yield document
