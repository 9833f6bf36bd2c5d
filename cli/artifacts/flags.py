"""The options that all commands on artifacts share, and the signing of ``push``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from cli import servers

Function = TypeVar("Function", bound=Callable[..., Any])

PROVIDERS: Final = ("generic", "aws", "azure", "gcp")


def access(function: Function) -> Function:
    """Add how to sign in, and how long to wait."""
    for option in reversed(
        (
            click.option("--creds", default="", metavar="USER[:PASSWORD]", help="Login."),
            click.option(
                "--provider",
                type=click.Choice(PROVIDERS),
                default=PROVIDERS[0],
                show_default=True,
                help="Sign in as this machine's identity at a cloud; generic reads docker's file.",
            ),
            click.option(
                "--insecure-registry",
                "insecure",
                is_flag=True,
                help="The registry may lack TLS.",
            ),
            servers.ca_file("Authority of the registry's certificate, PEM."),
            servers.timeout("How long each request may take."),
        )
    ):
        function = option(function)
    return function


def ignored(function: Function) -> Function:
    """Add which files to leave out."""
    return click.option(
        "--ignore-paths",
        "ignored",
        multiple=True,
        metavar="PATTERN",
        help="Leave out what matches, as .gitignore has it, instead of images and archives.",
    )(function)


def signing(function: Function) -> Function:
    """Add the flags for signers, and for Sigstore's services."""
    for option in reversed(
        (
            click.option(
                "--sign", is_flag=True, help="Sign as the identity of the CI job, by Sigstore."
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
                help="Sign as this OIDC token's subject; a name of a file works, too.",
            ),
            click.option(
                "--fulcio-url",
                "fulcio",
                default="",
                metavar="URL",
                help="Fulcio of a private one, instead of Sigstore's public one.",
            ),
            click.option(
                "--rekor-url",
                "rekor",
                default="",
                metavar="URL",
                help="Rekor of a private one.",
            ),
            click.option(
                "--rekor-version",
                type=click.IntRange(1, 2),
                default=1,
                show_default=True,
                help="Version of its Rekor; 2 needs timestamps.",
            ),
            click.option(
                "--timestamp-server-url",
                "timestamps",
                default="",
                metavar="URL",
                help="Timestamp authority (RFC 3161) of a private Sigstore.",
            ),
            click.option(
                "--trusted-root",
                type=_FILE,
                help="trusted_root.json of a private Sigstore.",
            ),
        )
    ):
        function = option(function)
    return function


_FILE: Final = click.Path(path_type=Path, exists=True, dir_okay=False)
