"""Exit codes, and that a failure is one message on stderr."""

from pathlib import Path

import click
import pytest

from cli.__main__ import main, penstock


def walk(command: click.Command) -> list[click.Command]:
    if not isinstance(command, click.Group):
        return [command]
    context = click.Context(command)
    children = (command.get_command(context, name) for name in command.list_commands(context))
    return [command, *(each for child in children if child for each in walk(child))]


@pytest.mark.parametrize("command", walk(penstock), ids=lambda c: c.name)
def test_every_command_has_help(command: click.Command) -> None:
    assert (command.help or "").strip().endswith("."), command.name


def test_help_exits_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "reconcile" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["get", "pods"], ["reconcile", "ks"], ["get", "ks", "--timeout=x"]]
)
def test_wrong_arguments_exit_with_one_and_say_why(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 1

    said = capsys.readouterr()
    assert said.err
    assert said.out == ""


@pytest.mark.parametrize(
    "arguments",
    [["diff", "ks", "apps"], ["diff", "nonsense"], ["diff", "inv", "a", "--kubeconfig=nowhere"]],
)
def test_a_failed_diff_is_told_from_differences(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 2

    assert capsys.readouterr().err


def test_missing_kubeconfig_is_told_with_the_remedy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code = main(["get", "ks", "--kubeconfig", str(tmp_path / "nowhere")])

    assert code == 1
    assert "--kubeconfig or KUBECONFIG" in capsys.readouterr().err


def test_nothing_runs_in_an_empty_state_directory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["status", "--state", str(tmp_path)]) == 1
    assert "`penstock up` starts it" in capsys.readouterr().err

    assert main(["down", "--state", str(tmp_path)]) == 0
