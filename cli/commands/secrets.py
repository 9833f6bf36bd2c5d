"""``penstock secrets``: Secrets that were decrypted at admission, and their recipients.

Only metadata are requested; values are never read.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from cli import examples, loading, namespaces, output, session, table
from toolkit.objects import Json, dig, key_of

if TYPE_CHECKING:
    from toolkit.decrypt import envelope
    from toolkit.kube import secrets as stored
    from toolkit.kube.client import Client
else:
    envelope = loading.Later("toolkit.decrypt.envelope")
    stored = loading.Later("toolkit.kube.secrets")


@click.command("secrets", epilog=examples.example("penstock secrets -A --retired age1…"))
@click.option("-A", "--all-namespaces", is_flag=True, help="Secrets of all namespaces.")
@click.option(
    "--retired",
    multiple=True,
    metavar="RECIPIENT",
    help="Only Secrets still encrypted for this recipient (age1…, a fingerprint, a key's address).",
)
@click.option("--no-header", is_flag=True, help="Do not print the header.")
@click.option("-o", "--output", "fmt", type=click.Choice(output.FORMATS), help="Output format.")
@session.options
def secrets(
    *,
    all_namespaces: bool,
    retired: tuple[str, ...],
    no_header: bool,
    fmt: str | None,
    **arguments: Any,
) -> None:
    """List Secrets that are decrypted at admission, and their recipients.

    After a key was replaced and the documents were encrypted again (`sops updatekeys`), --retired
    lists the Secrets that still need the old key: remove the key when the list is empty.
    """

    async def work(opened: session.Session) -> list[Json]:
        found = await _decrypted(opened.api, "" if all_namespaces else opened.namespace)
        if not (found or all_namespaces):
            await namespaces.require(opened)
        return found

    found = session.run(session.connection(arguments), work)
    if fmt:
        listed = [each for each in found if [*_rows(each, retired)]]
        kept = [{**each, "apiVersion": "v1", "kind": "Secret"} for each in listed]
        click.echo(output.render(kept, fmt, single=False), nl=False)
        return
    rows = [row for secret in found for row in _rows(secret, retired)]
    header = ("NAMESPACE", "NAME", "DOCUMENT", "RECIPIENTS")
    click.echo(table.render(header, rows, show_header=not no_header), nl=False)
    if not rows:
        click.echo("no Secret is encrypted for them" if retired else "no Secrets found", err=True)


def _rows(secret: Json, retired: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the row of a Secret, unless it has none of the retired recipients."""
    names = envelope.recipients(secret)
    if retired:
        names = tuple(name for name in names if _is_one_of(name, retired))
        if not names:
            return
    document = dig(secret, "metadata", "annotations", envelope.DOCUMENT, default="")
    key = key_of(secret)
    shown = str(document).removeprefix("sha256:")[:12] or "<none>"
    yield key.namespace, key.name, shown, ", ".join(names) or "<unknown>"


def _is_one_of(name: str, wanted: Sequence[str]) -> bool:
    """Tell whether a recipient, ``kind:name``, is meant; the kind may be left out."""
    return any(envelope.same_recipient(name, one) for one in wanted)


async def _decrypted(api: "Client", namespace: str) -> list[Json]:
    selector = f"{envelope.LABEL}={envelope.ENABLED}"
    pages = api.pages(stored.SECRET, namespace, label_selector=selector, metadata_only=True)
    return [secret async for page in pages for secret in page]
