"""Flags are taken as the programs of Kubernetes take them."""

import click
import pytest

from cli import goflags
from cli.__main__ import main
from cli.connection import Connection


@click.command()
@click.option("--watch", "-w", is_flag=True)
@click.option("--remote/--no-remote", default=True)
@click.option("--name")
@click.argument("words", nargs=-1)
def command(**_: object) -> None:
    """Do nothing."""


@pytest.fixture
def context() -> click.Context:
    return click.Context(command)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("--watch=true a", "--watch a"),
        ("--watch=false a", "a"),
        ("--remote=false", "--no-remote"),
        ("--remote=1", "--remote"),
        ("--watch=maybe", "--watch=maybe"),
        ("--name=true", "--name=true"),
        ("--name --server a", "--name --server a"),
        ("a --verbose --kube-api-qps 5 --cache-dir=x", "a"),
        ("-n apps --context c a", "a"),
        ("a -- --verbose", "a -- --verbose"),
        ("--unknown x", "--unknown x"),
    ],
)
def test_words_are_read_as_go_does(context: click.Context, given: str, read: str) -> None:
    assert goflags.adapt(context, command, given.split()) == read.split()


def test_connection_flags_are_kept_for_the_command(context: click.Context) -> None:
    words = "--server https://x --as-user-extra a=1 --as-user-extra=a=2 --insecure-skip-tls-verify"

    assert goflags.adapt(context, command, words.split()) == []
    with context:
        assert goflags.current() == {
            "--server": ["https://x"],
            "--as-user-extra": ["a=1", "a=2"],
            "--insecure-skip-tls-verify": [""],
        }


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("-n apps get ks", "get ks -n apps"),
        ("--context=c --verbose get ks web", "get ks web --context=c --verbose"),
        ("-n apps get ks -- x", "get ks -n apps -- x"),
        ("get -n apps", "get -n apps"),
        ("--version", "--version"),
        ("-n apps", "-n apps"),
    ],
)
def test_shared_flags_may_stand_before_the_verb(given: str, read: str) -> None:
    assert goflags.forward(given.split()) == read.split()


def test_a_flag_without_its_value_is_an_error(context: click.Context) -> None:
    with pytest.raises(click.UsageError, match="'--server' requires an argument"):
        goflags.adapt(context, command, ["--server"])


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("--pre=true sub --name x --token y", "--pre sub --name x --token y"),
        ("-n apps --pre sub", "--pre sub -n apps"),
        ("--watch --name=x sub a -- b", "sub a --watch --name=x -- b"),
        ("--token y sub", "sub --token y"),
        ("--server x --pre=true", "--pre"),
        ("--unknown sub", "--unknown sub"),
        ("sub --pre=true", "sub --pre=true"),
    ],
)
def test_a_group_leaves_the_flags_of_its_commands_to_them(given: str, read: str) -> None:
    pre = click.Option(["--pre"], is_flag=True)
    group = click.Group("check", params=[pre], commands={"sub": command})

    assert goflags.adapt(click.Context(group), group, given.split()) == read.split()


def test_flags_reach_the_connection(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    ca = tmp_path_factory.mktemp("pem") / "missing.pem"

    code = main(
        ["--server", "https://127.0.0.1:1", "get", "ks", "--certificate-authority", str(ca)]
    )

    assert code == 1
    assert f"{ca} cannot be read: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--as-group", "--as-uid", "--as-user-extra"])
def test_nobody_acts_as_a_part_of_a_user(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "ks", flag, "a=b"]) == 1
    assert f"{flag} needs --as" in capsys.readouterr().err


def test_a_session_keeps_no_token_in_what_is_shown() -> None:
    connection = Connection(
        kubeconfig="", context="", namespace="", timeout=1, flags={"--token": ["secret"]}
    )

    assert "secret" not in repr(connection)
