"""``penstock bootstrap``: have a Git repository install Penstock, and the cluster follow it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from cli import age, errors, session
from cli.bootstrap import access, bootstrapping, files
from cli.bootstrap.access import Access, Given
from cli.bootstrap.bootstrapping import Reach, Wish
from cli.bootstrap.committing import Signature
from cli.installing import choosing, manifests
from toolkit.kube import rbac
from toolkit.remote.git.git import Author

Function = TypeVar("Function", bound=Callable[..., Any])

_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_LOCKED: Final = "lockdown"
_SHARED: Final = (
    click.option("--branch", default="main", show_default=True, help="Branch to commit to."),
    click.option("--path", default="", help="Directory that the cluster follows; default all."),
    click.option(
        "--interval",
        type=age.DURATION,
        default="1m",
        show_default=True,
        help="How often to look for new commits.",
    ),
    click.option(
        "--secret-name",
        default="",
        metavar="NAME",
        help="Secret with the credentials; default the namespace's name.",
    ),
    click.option("--author-name", default="Penstock", show_default=True, help="Of the commit."),
    click.option(
        "--author-email", default="penstock@localhost", show_default=True, help="Of the commit."
    ),
    click.option("--commit-message-appendix", default="", help="Text to end the message with."),
    click.option(
        "--known-hosts-file",
        type=_FILE,
        help="Keys that the server may show over SSH, as ssh-keyscan writes them.",
    ),
    click.option("--ca-file", type=_FILE, help="Authority of the server's certificate, PEM."),
    click.option("-s", "--silent", is_flag=True, help="Do not ask for confirmation."),
    click.option(
        "--force",
        is_flag=True,
        help="Install also where Flux runs, or where another Kustomization applies Penstock.",
    ),
)


def _shared(function: Function) -> Function:
    """Add the options that all bootstrap commands have."""
    function = choosing.options(session.options(function))
    for option in reversed(_SHARED):
        function = option(function)
    return function


@click.group("bootstrap", no_args_is_help=True)
def bootstrap() -> None:
    """Install Penstock from a Git repository that it then follows.

    Commits the manifests of the installation and of the repository's own GitRepository and
    Kustomization below --path, installs them, and waits until the cluster has applied the commit.
    What is as it shall be is left alone, so that a command can be repeated, also to upgrade.
    """


@bootstrap.command("git")
@click.option("--url", required=True, help="Address of the repository: https:// or ssh://.")
@click.option("--username", default="", help="Of the user who pushes and fetches over HTTPS.")
@click.option(
    "--password",
    default="",
    envvar="GIT_PASSWORD",
    show_envvar=True,
    help="Of that user; over SSH of the private key.",
)
@click.option(
    "--private-key-file",
    type=_FILE,
    help="Key to push and fetch with over SSH; default is one that is made and printed.",
)
@click.option(
    "--allow-insecure-http", is_flag=True, help="Send the password also where there is no TLS."
)
@click.option("--token-auth", is_flag=True, hidden=True, help="What HTTPS means already.")
@_shared
def git(  # noqa: PLR0913  # options of the command
    *,
    url: str,
    username: str,
    password: str,
    private_key_file: Path | None,
    allow_insecure_http: bool,
    token_auth: bool,  # noqa: ARG001  # accepted, as Flux does
    silent: bool,
    **said: Any,
) -> None:
    """Bootstrap with a repository that exists.

    Over SSH without --private-key-file a key is made: add the public key that is printed to the
    repository, with write access.
    """
    given = Given(
        username=username,
        password=password,
        private_key=_content(private_key_file),
        known_hosts=_content(said.pop("known_hosts_file")),
        ca=_content(said.pop("ca_file")),
        plain_http=allow_insecure_http,
    )

    def added(public: str) -> bool:
        if silent:
            raise errors.UsageError(
                "--silent: nobody could add a key that is made now to the repository: name one "
                "that it accepts with --private-key-file"
            )
        click.echo(public)
        question = "Add this key to the repository, with write access. Is it added?"
        return click.confirm(question, err=True)

    async def reach(earlier: Mapping[str, bytes]) -> Access:
        return access.of_repository(url, given, earlier, added)

    _run(said, reach)


def _run(said: dict[str, Any], reach: Reach) -> None:
    connection = session.connection(said)
    choice = choosing.choice(said, namespace=connection.namespace or rbac.NAMESPACE)
    if _LOCKED in choice.components:
        raise errors.UsageError(
            f"--components: with {_LOCKED} no Kustomization is applied with an administrator's "
            "rights, so that none can apply the installation: use `penstock install`"
        )
    wish = Wish(
        choice=choice,
        branch=said["branch"],
        path=files.cleaned(said["path"]),
        interval=f"{said['interval']:g}s",
        secret=said["secret_name"] or choice.namespace,
        signature=Signature(
            author=Author(name=said["author_name"], email=said["author_email"]),
            appendix=said["commit_message_appendix"],
        ),
        force=said["force"],
    )
    objects = session.run_offline(manifests.build(choice))

    async def work(opened: session.Session) -> None:
        await bootstrapping.run(opened, wish, objects, reach)

    session.run(session.placed(connection, choice.namespace), work)


def _content(file: Path | None) -> bytes:
    if file is None:
        return b""
    try:
        return file.read_bytes()
    except OSError as exc:
        raise errors.UsageError(f"cannot read {file}: {exc.strerror}") from None
