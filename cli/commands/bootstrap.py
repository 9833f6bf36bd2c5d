"""``penstock bootstrap``: have a Git repository install Penstock, and the cluster follow it."""

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from cli import asking, errors, examples, kindtree, loading, servers, session
from cli.bootstrap import choices
from cli.bootstrap.hosts import DIALECTS
from cli.bootstrap.hosts.dialect import USER, Dialect, Place, Team
from cli.creating.flags import words
from cli.installing import choosing

if TYPE_CHECKING:
    from cli.bootstrap import access, bootstrapping, files
    from cli.bootstrap.access import Access
    from cli.bootstrap.bootstrapping import Reach
    from cli.bootstrap.hosts import hosting
    from cli.installing import manifests
else:
    access = loading.Later("cli.bootstrap.access")
    bootstrapping = loading.Later("cli.bootstrap.bootstrapping")
    files = loading.Later("cli.bootstrap.files")
    hosting = loading.Later("cli.bootstrap.hosts.hosting")
    manifests = loading.Later("cli.installing.manifests")

_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_NAMES: Final = {
    # GitLab's groups have subgroups.
    "owner": re.compile(rf"{_NAME}(/{_NAME})*"),
    "repository": re.compile(_NAME),
    "hostname": re.compile(rf"{_NAME}(:[0-9]+)?"),
    "ssh_hostname": re.compile(rf"({_NAME}(:[0-9]+)?)?"),
}


@click.group("bootstrap", cls=kindtree.AliasGroup, no_args_is_help=True)
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
@click.option(
    "-u", "--username", default="", help="Name of the user who pushes and fetches over HTTPS."
)
@click.option(
    "-p",
    "--password",
    default="",
    envvar="GIT_PASSWORD",
    show_envvar=True,
    help="Password of the user; with SSH, the password of the private key.",
)
@click.option("--with-bearer-token", "bearer", is_flag=True, help="The password is a bearer token.")
@click.option("--ssh-hostname", hidden=True, expose_value=False, help="What --url says already.")
@click.option("--allow-insecure-http", is_flag=True, help="Send the password even without TLS.")
@click.option(
    "--token-auth",
    is_flag=True,
    hidden=True,
    expose_value=False,
    help="What HTTPS means already.",
)
@choices.options
def git(
    *,
    url: str,
    allow_insecure_http: bool,
    bearer: bool,
    **said: Any,
) -> None:
    """Bootstrap with a repository that exists.

    Over SSH without --private-key-file a key is made: add the public key that is printed to the
    repository, with write access.
    """
    given = access.Given(
        username=said["username"],
        password=said["password"],
        bearer=bearer,
        private_key=servers.content(said["private_key_file"]),
        key=choices.key(said),
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
        asking.require(
            "Add this key to the repository, with write access. Is it added?",
            otherwise="the key was not added to the repository",
            flag="--private-key-file with a key that it accepts",
        )
        return True

    async def reach(earlier: Mapping[str, bytes]) -> "Access":
        return access.of_repository(url, given, earlier, added)

    _run(said, reach)


_OF_HOSTS: Final = (
    click.option("--owner", required=True, help="User or organization that owns the repository."),
    click.option(
        "--repository",
        required=True,
        help="Name of the repository; it is created if it does not exist.",
    ),
    click.option("--personal", is_flag=True, help="The owner is a user, not an organization."),
    click.option(
        "--reconcile",
        is_flag=True,
        help="Also change the visibility of a repository that exists.",
    ),
    click.option(
        "--private",
        type=bool,
        is_flag=False,
        flag_value="true",
        default=True,
        show_default=True,
        metavar="BOOL",
        help="Create the repository as private; with =false, everybody can read it.",
    ),
    click.option(
        "--token-auth", is_flag=True, help="Make the cluster fetch with the token, over HTTPS."
    ),
    click.option("--read-write-key", is_flag=True, help="Give the deploy key write access."),
    click.option(
        "--ssh-hostname", default="", help="Host and port for SSH; default is --hostname."
    ),
)


_GITLAB: Final = (
    click.option(
        "--visibility",
        type=click.Choice(("private", "internal", "public")),
        default=None,
        help="Visibility of a new repository; default is that of --private.",
    ),
    click.option(
        "--deploy-token-auth",
        "deploy_token",
        is_flag=True,
        help="Create a deploy token, and make the cluster fetch with it over HTTPS.",
    ),
)
_BITBUCKET: Final = (
    click.option(
        "-u",
        "--username",
        default=USER,
        show_default=True,
        help="User who owns the token, for Git over HTTPS.",
    ),
)
_OWN: Final = {"gitlab": _GITLAB, "bitbucket-server": _BITBUCKET}
"""Options of one service."""


def _command(name: str, dialect: Dialect) -> click.Command:
    title, variable = dialect.title.split()[1], dialect.variable

    def command(**said: Any) -> None:
        hosted = _hosted(said, variable)

        async def reach(earlier: Mapping[str, bytes]) -> "Access":
            return await hosting.reach(dialect, hosted, earlier)

        _run(said, reach)

    function = choices.options(command)
    required: dict[str, Any] = (
        {"default": dialect.hostname, "show_default": True}
        if dialect.hostname
        else {"required": True}
    )
    function = click.option("--hostname", help=f"Host of {title}.", **required)(function)
    groups = "--group" if name == "bitbucket-server" else "--team"
    team = click.option(
        groups,
        "teams",
        multiple=True,
        metavar="NAME[:ACCESS]",
        help="Give a team or a group access to the repository.",
    )
    for option in reversed((*_OF_HOSTS, team, *_OWN.get(name, ()))):
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


def _hosted(said: Mapping[str, Any], variable: str) -> "hosting.Hosted":
    place = _place(said)
    if said["token_auth"] and said.get("deploy_token"):
        raise errors.UsageError("--deploy-token-auth replaces --token-auth: leave one out")
    return hosting.Hosted(
        place=place,
        token=_token(variable),
        token_auth=said["token_auth"],
        deploy_token=said.get("deploy_token", False),
        username=said.get("username", USER),
        read_write_key=said["read_write_key"],
        key_title=f"{choices.namespace(said)}-{said['branch']}-./{files.cleaned(said['path'])}",
        ssh_hostname=said["ssh_hostname"] or place.hostname,
        known_hosts=servers.content(said["known_hosts_file"]),
        ca=servers.content(said["ca_file"]),
        teams=tuple(_team(each) for each in words(said["teams"])),
        reconcile=said["reconcile"],
        key=choices.key(said),
    )


def _place(said: Mapping[str, Any]) -> Place:
    for option in ("owner", "repository", "hostname", "ssh_hostname"):
        if not _NAMES[option].fullmatch(said[option]):
            raise errors.UsageError(f"--{option.replace('_', '-')}: {said[option]!r} is not a name")
    return Place(
        hostname=said["hostname"],
        owner=said["owner"],
        name=said["repository"].removesuffix(".git"),
        personal=said["personal"],
        visibility=said.get("visibility") or ("private" if said["private"] else "public"),
    )


def _team(text: str) -> Team:
    name, _, access = text.partition(":")
    if not _NAMES["owner"].fullmatch(name):
        raise errors.UsageError(f"--team, --group: {text!r} is not NAME or NAME:ACCESS")
    return Team(name=name, access=access)


def _token(variable: str) -> str:
    token = os.environ.get(variable, "").strip()
    if not token:
        asked = sys.stdin.isatty()
        token = click.prompt(variable, hide_input=True, err=True) if asked else sys.stdin.readline()
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise errors.UsageError(f"there is no token: set {variable}, or write it to standard input")
    return token


def _run(said: dict[str, Any], reach: "Reach") -> None:
    namespace = choices.namespace(said)
    connection = session.connection(said)
    choice = choosing.choice(said, namespace=namespace)
    wish = choices.wish(said, choice)
    objects = session.run_offline(manifests.build(choice))

    async def work(opened: session.Session) -> None:
        await bootstrapping.run(opened, wish, objects, reach)

    session.run(session.placed(connection, choice.namespace), work, pace="steps")
