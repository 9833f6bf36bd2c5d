"""Exit codes, and that a failure is one message on stderr."""

import importlib.metadata
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


_ELSEWHERE = {"bootstrap", "install", "uninstall"}
"""Their help has its examples in the guides to installing."""


def leaves() -> list[click.Command]:
    context = click.Context(penstock)
    verbs = (penstock.get_command(context, name) for name in penstock.list_commands(context))
    found = [each for verb in verbs if verb and verb.name not in _ELSEWHERE for each in walk(verb)]
    return [each for each in found if not isinstance(each, click.Group)]


@pytest.mark.parametrize("command", leaves(), ids=lambda c: c.name)
def test_every_command_has_an_example(command: click.Command) -> None:
    assert "Example:\n  " in (command.epilog or "")


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0

    version = importlib.metadata.version("penstock")
    assert capsys.readouterr().out == f"penstock version v{version}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_prints_a_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert main(["completion", shell]) == 0

    assert "_PENSTOCK_COMPLETE" in capsys.readouterr().out


def test_verbs_are_completed_from_the_table() -> None:
    found = penstock.shell_complete(click.Context(penstock), "re")

    assert [item.value for item in found] == ["reconcile", "resume"]


def test_help_exits_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "reconcile" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["get", "pods"],
        ["reconcile", "ks"],
        ["get", "ks", "--timeout=x"],
        ["get", "ks", "--as-group=x"],
    ],
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


def test_a_verb_alone_prints_its_help_and_a_command_without_words_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    codes = {words: main(words.split()) for words in ("get", "create secret", "diff", "trace")}

    assert codes == {"get": 0, "create secret": 0, "diff": 0, "trace": 1}
    said = capsys.readouterr()
    assert said.out.count("Usage: penstock") == 3
    assert said.err.startswith("Usage: penstock trace")
