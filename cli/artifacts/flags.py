"""The options that all commands on artifacts share, and the signing of ``push``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypedDict, TypeVar

import click

from cli import servers

Function = TypeVar("Function", bound=Callable[..., Any])


class Limit(TypedDict):
    """The seconds that a command may take, and what it says when they have passed."""

    seconds: float
    silent: str


PROVIDERS: Final = ("generic", "aws", "azure", "gcp")


def access(function: Function) -> Function:
    """Add how to sign in, and how long to wait."""
    for option in reversed(
        (
            click.option(
                "--creds", default="", metavar="USER[:PASSWORD]", help="Login at the registry."
            ),
            click.option(
                "--provider",
                type=click.Choice(PROVIDERS),
                default=PROVIDERS[0],
                show_default=True,
                help="Sign in as this machine at a cloud; generic uses docker's config.json.",
            ),
            click.option(
                "--insecure-registry",
                "insecure",
                is_flag=True,
                help="Permit a registry without TLS.",
            ),
            servers.ca_file("File with the registry's CA certificate, in PEM."),
            servers.timeout("How long the command may take."),
        )
    ):
        function = option(function)
    return function


def limit(said: dict[str, Any]) -> Limit:
    """Return the limit of a command by the flags of ``access``, for ``session.run_offline``."""
    return {"seconds": said["timeout"], "silent": "the registry did not answer all requests"}


def ignored(function: Function) -> Function:
    """Add which files to leave out."""
    return click.option(
        "--ignore-paths",
        "ignored",
        multiple=True,
        metavar="PATTERN",
        help="Files to leave out, as .gitignore patterns; default images and archives.",
    )(function)


def signing(function: Function) -> Function:
    """Add the flags for signers, and for Sigstore's services."""
    for option in reversed(
        (
            click.option(
                "--sign", is_flag=True, help="Sign with the identity of the CI job, with Sigstore."
            ),
            click.option(
                "--key",
                type=_FILE,
                help="Sign with this private key in PEM; COSIGN_PASSWORD has its password.",
            ),
            click.option(
                "--identity-token",
                "token",
                default="",
                envvar="SIGSTORE_ID_TOKEN",
                metavar="TOKEN",
                help="OIDC token to sign with, or a file that contains it.",
            ),
            click.option(
                "--fulcio-url",
                "fulcio",
                default="",
                metavar="URL",
                help="Address of Fulcio, for a private Sigstore instance.",
            ),
            click.option(
                "--rekor-url",
                "rekor",
                default="",
                metavar="URL",
                help="Address of Rekor, for a private Sigstore instance.",
            ),
            click.option(
                "--rekor-version",
                type=click.IntRange(1, 2),
                default=1,
                show_default=True,
                help="Version of Rekor, for a private Sigstore instance; 2 needs timestamps.",
            ),
            click.option(
                "--timestamp-server-url",
                "timestamps",
                default="",
                metavar="URL",
                help="Timestamp authority (RFC 3161), for a private Sigstore instance.",
            ),
            click.option(
                "--trusted-root",
                type=_FILE,
                help="File trusted_root.json of a private Sigstore instance.",
            ),
        )
    ):
        function = option(function)
    return function


_FILE: Final = click.Path(path_type=Path, exists=True, dir_okay=False)
