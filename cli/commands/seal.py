"""``penstock seal``: encrypt the manifest of a Secret, as SOPS would."""

import datetime as dt
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli import errors, examples, loading, progress
from toolkit.decrypt.errors import DecryptionError
from toolkit.objects import dig

if TYPE_CHECKING:
    from toolkit.decrypt import envelope
    from toolkit.decrypt import seal as sealing
else:
    envelope = loading.Later("toolkit.decrypt.envelope")
    sealing = loading.Later("toolkit.decrypt.seal")


@click.command(
    "seal", epilog=examples.example("penstock seal -f secret.yaml --age age1… -o secret.sops.yaml")
)
@click.option(
    "-f",
    "--filename",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    required=True,
    help="Manifest of one Secret; - is standard input.",
)
@click.option(
    "--age",
    "recipients",
    multiple=True,
    required=True,
    metavar="RECIPIENT",
    help="age1…, ssh-ed25519 … or ssh-rsa …; may be given several times.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write instead of standard output.",
)
def seal(*, filename: Path, recipients: tuple[str, ...], output: Path | None) -> None:
    """Encrypt a Secret for the holders of age keys.

    The result is a SOPS document: names and labels stay readable, values do not. Commit it, and a
    Kustomization with spec.decryption applies it; or send it with `penstock apply`. Any of the
    recipients' keys opens it, and `sops` edits it.
    """
    plain = _read(filename)
    try:
        sealed = sealing.seal(plain, recipients, now=dt.datetime.now(dt.UTC))
        carrier = envelope.make(sealed)
    except DecryptionError as exc:
        raise errors.UsageError(f"cannot seal {filename}: {exc}") from None
    if not dig(carrier, "metadata", "namespace"):
        progress.failure(
            "metadata.namespace is missing: only a Kustomization or HelmRelease can use it,"
            " `penstock apply` cannot"
        )
    if output is None:
        click.echo(sealed, nl=False)
    else:
        output.write_bytes(sealed)


def _read(filename: Path) -> bytes:
    if str(filename) == "-":
        return sys.stdin.buffer.read()
    try:
        return filename.read_bytes()
    except OSError as exc:
        raise errors.UsageError(f"cannot read {filename}: {exc.strerror}") from None
