"""``penstock bootstrap``: have a Git repository install Penstock, and the cluster follow it."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from cli import age, errors, examples, loading, servers, session
from cli.bootstrap.hosts import DIALECTS
from cli.bootstrap.hosts.dialect import Dialect, Place
from cli.installing import choosing
from toolkit.kube import rbac

if TYPE_CHECKING:
    from cli.bootstrap import access, bootstrapping, committing, files
    from cli.bootstrap.access import Access
    from cli.bootstrap.bootstrapping import Reach
    from cli.bootstrap.hosts import hosting
    from cli.installing import manifests
    from toolkit.remote.git import git as gitclient
else:
    access = loading.Later("cli.bootstrap.access")
    bootstrapping = loading.Later("cli.bootstrap.bootstrapping")
    committing = loading.Later("cli.bootstrap.committing")
    files = loading.Later("cli.bootstrap.files")
    hosting = loading.Later("cli.bootstrap.hosts.hosting")
    manifests = loading.Later("cli.installing.manifests")
    gitclient = loading.Later("toolkit.remote.git.git")

Function = TypeVar("Function", bound=Callable[..., Any])

_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_NAMES: Final = {
    # GitLab's groups have subgroups.
    "owner": re.compile(rf"{_NAME}(/{_NAME})*"),
    "repository": re.compile(_NAME),
    "hostname": re.compile(rf"{_NAME}(:[0-9]+)?"),
    "ssh_hostname": re.compile(rf"({_NAME}(:[0-9]+)?)?"),
}
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
    servers.known_hosts_file,
    servers.ca_file("Authority of the server's certificate, PEM."),
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


@bootstrap.command(
    "git",
    epilog=examples.example(
        "penstock bootstrap git --url ssh://git@git.example.com/org/fleet --path clusters/prod"
    ),
)
@click.option("--url", required=True, help="Address of the repository: https:// or ssh://.")
@click.option("-u", "--username", default="", help="Of the user who pushes and fetches over HTTPS.")
@click.option(
    "-p",
    "--password",
    default="",
    envvar="GIT_PASSWORD",
    show_envvar=True,
    help="Of that user; over SSH of the private key.",
)
@click.option(
    "--private-key-file",
    type=servers.FILE,
    help="Key to push and fetch with over SSH; default is one that is made and printed.",
)
@click.option("--allow-insecure-http", is_flag=True, help="Send the password even without TLS.")
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
    **said: Any,
) -> None:
    """Bootstrap with a repository that exists.

    Over SSH without --private-key-file a key is made: add the public key that is printed to the
    repository, with write access.
    """
    given = access.Given(
        username=username,
        password=password,
        private_key=servers.content(private_key_file),
        known_hosts=servers.content(said["known_hosts_file"]),
        ca=servers.content(said["ca_file"]),
        plain_http=allow_insecure_http,
    )

    def added(public: str) -> bool:
        if said["silent"]:
            raise errors.UsageError(
                "--silent: nobody can add a new key to the repository: name one "
                "that it accepts with --private-key-file"
            )
        click.echo(public)
        question = "Add this key to the repository, with write access. Is it added?"
        return click.confirm(question, err=True)

    async def reach(earlier: Mapping[str, bytes]) -> "Access":
        return access.of_repository(url, given, earlier, added)

    _run(said, reach)


_OF_HOSTS: Final = (
    click.option("--owner", required=True, help="User or organization that has the repository."),
    click.option("--repository", required=True, help="Its name; it is made if it is missing."),
    click.option("--personal", is_flag=True, help="The owner is a user, not an organization."),
    click.option(
        "--private",
        type=bool,
        is_flag=False,
        flag_value="true",
        default=True,
        show_default=True,
        metavar="BOOL",
        help="Who may see a repository that is made: members, or with =false everybody.",
    ),
    click.option(
        "--token-auth", is_flag=True, help="The cluster fetches with the token, over HTTPS."
    ),
    click.option("--read-write-key", is_flag=True, help="The deploy key may push as well."),
    click.option(
        "--ssh-hostname", default="", help="Host, with port, of SSH; default is --hostname."
    ),
)


def _command(name: str, dialect: Dialect) -> click.Command:
    title, variable = dialect.title.split()[1], dialect.variable

    def command(**said: Any) -> None:
        place = _place(said)
        hosted = hosting.Hosted(
            place=place,
            token=_token(variable),
            token_auth=said["token_auth"],
            read_write_key=said["read_write_key"],
            key_title=f"{_namespace(said)}-{said['branch']}-./{files.cleaned(said['path'])}",
            ssh_hostname=said["ssh_hostname"] or place.hostname,
            known_hosts=servers.content(said["known_hosts_file"]),
            ca=servers.content(said["ca_file"]),
        )

        async def reach(earlier: Mapping[str, bytes]) -> "Access":
            return await hosting.reach(dialect, hosted, earlier)

        _run(said, reach)

    function = _shared(command)
    function = click.option(
        "--hostname", default=dialect.hostname, show_default=True, help=f"Host of {title}."
    )(function)
    for option in reversed(_OF_HOSTS):
        function = option(function)
    return click.command(
        name,
        help=f"""Bootstrap with a repository at {title}, which is made if it is missing.

        {variable}, or a line of standard input, is a token that may write to the repository, make
        it, and register a deploy key. The command pushes with the token; the cluster gets the
        deploy key, which may only fetch, or with --token-auth the token.
        """,
        epilog=examples.example(
            f"{variable}=... penstock bootstrap {name} --owner org --repository fleet \\",
            "  --path clusters/prod",
        ),
    )(function)


for _name, _dialect in DIALECTS.items():
    bootstrap.add_command(_command(_name, _dialect))


def _place(said: Mapping[str, Any]) -> Place:
    for option in ("owner", "repository", "hostname", "ssh_hostname"):
        if not _NAMES[option].fullmatch(said[option]):
            raise errors.UsageError(f"--{option.replace('_', '-')}: {said[option]!r} is not a name")
    return Place(
        hostname=said["hostname"],
        owner=said["owner"],
        name=said["repository"].removesuffix(".git"),
        personal=said["personal"],
        private=said["private"],
    )


def _token(variable: str) -> str:
    token = os.environ.get(variable, "").strip()
    if not token:
        asked = sys.stdin.isatty()
        token = click.prompt(variable, hide_input=True, err=True) if asked else sys.stdin.readline()
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise errors.UsageError(f"there is no token: set {variable}, or write it to standard input")
    return token


def _namespace(said: Mapping[str, Any]) -> str:
    return said["namespace"] or rbac.NAMESPACE


def _run(said: dict[str, Any], reach: "Reach") -> None:
    namespace = _namespace(said)
    connection = session.connection(said)
    choice = choosing.choice(said, namespace=namespace)
    if _LOCKED in choice.components:
        raise errors.UsageError(
            f"--components: with {_LOCKED} no Kustomization is applied with an administrator's "
            "rights, so that none can apply the installation: use `penstock install`"
        )
    wish = bootstrapping.Wish(
        choice=choice,
        branch=said["branch"],
        path=files.cleaned(said["path"]),
        interval=f"{said['interval']:g}s",
        secret=said["secret_name"] or choice.namespace,
        signature=committing.Signature(
            author=gitclient.Author(name=said["author_name"], email=said["author_email"]),
            appendix=said["commit_message_appendix"],
        ),
        force=said["force"],
    )
    objects = session.run_offline(manifests.build(choice))

    async def work(opened: session.Session) -> None:
        await bootstrapping.run(opened, wish, objects, reach)

    session.run(session.placed(connection, choice.namespace), work)
