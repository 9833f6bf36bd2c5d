"""Options that commands share for the servers that they talk to, and files of keys.

Names of options are those that ``flux`` has. ``content`` reads a file with a key or a certificate
within bounds, because the user may name another file by mistake.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from cli import age, errors

Function = TypeVar("Function", bound=Callable[..., Any])

FILE: Final = click.Path(path_type=Path, dir_okay=False)
_LARGEST: Final = 1 << 20


def timeout(text: str) -> Callable[[Function], Function]:
    """Return the option ``--timeout``, in seconds; ``text`` is its subject."""
    return click.option("--timeout", type=age.DURATION, default="5m", show_default=True, help=text)


def ca_file(text: str) -> Callable[[Function], Function]:
    """Return the option ``--ca-file``; ``text`` names the server of the certificate."""
    return click.option("--ca-file", type=FILE, help=text)


def known_hosts_file(function: Function) -> Function:
    """Add the option ``--known-hosts-file``."""
    return click.option(
        "--known-hosts-file",
        type=FILE,
        help="File with the SSH host keys of the server, in the format of ssh-keyscan.",
    )(function)


def content(file: Path | None) -> bytes:
    """Return the content of a file with a key or a certificate; empty without a file.

    Raises:
        UsageError: it cannot be read, or is too large.
    """
    if file is None:
        return b""
    try:
        with file.open("rb") as opened:
            found = opened.read(_LARGEST + 1)
    except OSError as exc:
        raise errors.UsageError(f"cannot read {file}: {exc.strerror}") from exc
    if len(found) > _LARGEST:
        raise errors.UsageError(f"{file} is larger than {_LARGEST} bytes")
    return found
