"""The options common to all ``bootstrap`` commands, and their values."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from cli import age, errors, loading, servers, session
from cli.creating.flags import words
from cli.installing import choosing
from toolkit.kube import rbac

if TYPE_CHECKING:
    from cli.bootstrap import bootstrapping, committing, files
    from cli.installing import manifests
    from toolkit.remote.git import errors as git_errors
    from toolkit.remote.git import git as gitclient
    from toolkit.remote.git import signing, wire
else:
    bootstrapping = loading.Later("cli.bootstrap.bootstrapping")
    committing = loading.Later("cli.bootstrap.committing")
    files = loading.Later("cli.bootstrap.files")
    gitclient = loading.Later("toolkit.remote.git.git")
    signing = loading.Later("toolkit.remote.git.signing")
    wire = loading.Later("toolkit.remote.git.wire")
    git_errors = loading.Later("toolkit.remote.git.errors")

Function = TypeVar("Function", bound=Callable[..., Any])

_LOCKED: Final = "lockdown"
_ALGORITHMS: Final = ("ed25519", "ecdsa", "rsa")
_CURVES: Final = ("p256", "p384", "p521")
_COMMIT: Final = (
    click.option("--branch", default="main", show_default=True, help="Branch to commit to."),
    click.option(
        "--path",
        default="",
        help="Directory of the repository that the cluster follows; default is the root.",
    ),
    click.option(
        "--interval",
        type=age.DURATION,
        default="1m",
        show_default=True,
        help="How often to look for new commits.",
    ),
    click.option(
        "--recurse-submodules", is_flag=True, help="Make the cluster fetch submodules, too."
    ),
    click.option(
        "--sparse-checkout",
        multiple=True,
        metavar="DIRECTORY",
        help="The cluster fetches only these directories, of which --path is one or in one.",
    ),
    click.option(
        "--secret-name",
        default="",
        metavar="NAME",
        help="Name of the Secret with the credentials; default is the name of the namespace.",
    ),
    click.option(
        "--author-name", default="Penstock", show_default=True, help="Name of the commit's author."
    ),
    click.option(
        "--author-email",
        default="penstock@localhost",
        show_default=True,
        help="Email address of the commit's author.",
    ),
    click.option(
        "--commit-message-appendix", default="", help="Text to append to the commit message."
    ),
    click.option(
        "--gpg-key-ring", type=servers.FILE, help="Sign the commit with this OpenPGP secret key."
    ),
    click.option("--gpg-passphrase", default="", help="Passphrase of the OpenPGP key."),
    click.option(
        "--gpg-key-id",
        default="",
        metavar="ID",
        help="Last digits of the fingerprint that the key must have.",
    ),
    click.option(
        "--ssh-signing-key-file", type=servers.FILE, help="Sign the commit with this SSH key."
    ),
    click.option("--ssh-signing-password", default="", help="Password of the SSH signing key."),
    click.option(
        "--ssh-signing-reuse-private-key",
        "reuse",
        is_flag=True,
        help="Sign the commit with the key of --private-key-file.",
    ),
)
_KEYS: Final = (
    click.option(
        "--private-key-file",
        type=servers.FILE,
        help="File with the SSH key that the cluster fetches with; default is a new key.",
    ),
    click.option(
        "--ssh-key-algorithm",
        type=click.Choice(_ALGORITHMS),
        default="ed25519",
        show_default=True,
        help="Algorithm of a new key.",
    ),
    click.option(
        "--ssh-ecdsa-curve",
        type=click.Choice(_CURVES),
        default="p384",
        show_default=True,
        help="Curve of a new ECDSA key.",
    ),
    click.option(
        "--ssh-rsa-bits",
        type=click.IntRange(2048, 16384),
        default=3072,
        show_default=True,
        help="Size of a new RSA key.",
    ),
    click.option(
        "--ssh-hostkey-algos", hidden=True, expose_value=False, help="No effect: no host is asked."
    ),
    servers.known_hosts_file,
    servers.ca_file("File with the server's CA certificate, in PEM."),
    click.option("-s", "--silent", is_flag=True, help="Do not ask for confirmation."),
    click.option(
        "--force",
        is_flag=True,
        help="Install also where Flux runs, or where another Kustomization applies Penstock.",
    ),
)
_MAKING: Final = (
    "private_key_file",
    "password",
    "ssh_key_algorithm",
    "ssh_ecdsa_curve",
    "ssh_rsa_bits",
)
"""Options of a key, for ``cli.creating.keypairs``."""


def options(function: Function) -> Function:
    """Add the options to a command."""
    function = choosing.options(choosing.anew(session.options(function)))
    for option in reversed((*_COMMIT, *_KEYS)):
        function = option(function)
    return function


def key(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``keypairs.pair``."""
    return {name: said.get(name) for name in _MAKING}


def namespace(said: Mapping[str, Any]) -> str:
    """Return the namespace of the installation."""
    return str(said["namespace"] or rbac.NAMESPACE)


def wish(said: dict[str, Any], choice: "manifests.Choice") -> "bootstrapping.Wish":
    """Return the options for ``bootstrapping``, given the chosen installation.

    Raises:
        UsageError: options contradict each other, or a key is invalid.
    """
    if _LOCKED in choice.components:
        raise errors.UsageError(
            f"--components: with {_LOCKED} no Kustomization is applied with an administrator's "
            "rights, so that none can apply the installation: use `penstock install`"
        )
    return bootstrapping.Wish(
        choice=choice,
        branch=said["branch"],
        path=files.cleaned(said["path"]),
        interval=f"{said['interval']:g}s",
        secret=said["secret_name"] or choice.namespace,
        submodules=said["recurse_submodules"],
        sparse=tuple(words(said["sparse_checkout"])),
        signature=committing.Signature(
            author=gitclient.Author(name=said["author_name"], email=said["author_email"]),
            appendix=said["commit_message_appendix"],
            key=signing_key(said),
        ),
        force=said["force"],
    )


def signing_key(said: Mapping[str, Any]) -> "wire.SigningKey | None":
    """Return the key to sign the commit with.

    Raises:
        UsageError: it cannot be used, or two are named.
    """
    reused = said["private_key_file"] if said["reuse"] else None
    if said["reuse"] and reused is None:
        raise errors.UsageError("--ssh-signing-reuse-private-key needs --private-key-file")
    named: tuple[tuple[str, Path | None, Any, str], ...] = (
        ("--gpg-key-ring", said["gpg_key_ring"], "gpg", said["gpg_passphrase"]),
        (
            "--ssh-signing-key-file",
            said["ssh_signing_key_file"],
            "ssh",
            said["ssh_signing_password"],
        ),
        ("--private-key-file", reused, "ssh", said.get("password") or ""),
    )
    given = [row for row in named if row[1] is not None]
    if len(given) > 1:
        raise errors.UsageError(f"{given[0][0]} and {given[1][0]} each sign the commit: name one")
    if not given:
        return None
    flag, file, kind, passphrase = given[0]
    found = wire.SigningKey(kind=kind, key=servers.content(file), passphrase=passphrase)
    try:
        signing.sign(found, b"")
        if said["gpg_key_id"] and kind == "gpg":
            _require_id(signing.fingerprint(found), said["gpg_key_id"], file)
    except git_errors.GitAuthError as exc:
        raise errors.UsageError(
            f"{flag}: {file} holds no key that signs today and that its passphrase opens"
        ) from exc
    return found


def _require_id(fingerprint: str, wanted: str, file: Path | None) -> None:
    if not fingerprint.lower().endswith(wanted.lower().removeprefix("0x")):
        raise errors.UsageError(
            f"--gpg-key-id: the key in {file} has the fingerprint {fingerprint}: export the one "
            f"that you want with `gpg --export-secret-keys {wanted}`"
        )
