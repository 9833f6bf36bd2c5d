"""The options for the commit of a repository, and for credentials at its server.

Their names are those of ``create source git``, ``create secret git`` and ``bootstrap git``.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from cli import errors, servers

Function = TypeVar("Function", bound=Callable[..., Any])

REFERENCE: Final = ("branch", "tag", "tag_semver", "ref_name", "commit")
SCP: Final = re.compile(r"(?:(?P<user>[^@/:]+)@)?(?P<host>[^/:@]+):(?P<path>[^/].*)")
"""An address as scp has it, which Git takes too."""
_OPTIONS: Final = (
    click.option(
        "--branch", default="", help="Branch to check; default is the default branch of the server."
    ),
    click.option("--tag", default="", help="Tag to check."),
    click.option(
        "--tag-semver",
        default="",
        metavar="RANGE",
        help="Range of versions; the highest tag in it is checked.",
    ),
    click.option("--ref-name", default="", metavar="NAME", help="Full name of a reference."),
    click.option("--commit", default="", metavar="SHA", help="Commit to check, also of --branch."),
    click.option(
        "--recurse-submodules", "submodules", is_flag=True, help="Fetch the submodules as well."
    ),
    click.option("-u", "--username", default="", help="Name of the user who fetches over HTTPS."),
    click.option(
        "-p",
        "--password",
        default="",
        envvar="GIT_PASSWORD",
        show_envvar=True,
        help="Password of the user; with SSH, the password of the private key.",
    ),
    click.option(
        "--bearer-token",
        "token",
        default="",
        envvar="GIT_BEARER_TOKEN",
        show_envvar=True,
        metavar="TOKEN",
        help="Bearer token, instead of a user name and password.",
    ),
    click.option(
        "--private-key-file", type=servers.FILE, help="File with the SSH key to fetch with."
    ),
    servers.known_hosts_file,
    servers.ca_file("File with the server's CA certificate, in PEM."),
    click.option(
        "--allow-insecure-http",
        "plain_http",
        is_flag=True,
        help="Send credentials even without TLS.",
    ),
    servers.timeout("How long fetching may take."),
)
FILES: Final = ("private_key_file", "known_hosts_file", "ca_file")
_OF_URLS: Final = (*REFERENCE, "submodules", "username", *FILES)


def fetching(function: Function) -> Function:
    """Add the options."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def is_url(address: str) -> bool:
    """Tell whether it is an address and no directory."""
    return "://" in address or (SCP.fullmatch(address) is not None and not Path(address).exists())


def require_none(said: Mapping[str, Any]) -> None:
    """Require that no option is set that is only for a URL.

    Raises:
        UsageError: one is set.
    """
    if given := next((name for name in _OF_URLS if said[name]), ""):
        flag = {"submodules": "recurse-submodules"}.get(given, given.replace("_", "-"))
        raise errors.UsageError(
            f"--{flag} is for a URL; a directory is checked as it is, with what is not committed"
        )
