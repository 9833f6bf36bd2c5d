"""What `penstock bootstrap` refuses before it asks a cluster or a service."""

from collections.abc import Sequence

import click
import pytest
from click.testing import CliRunner

from cli.commands.bootstrap import bootstrap
from cli.errors import UsageError

AT = ("--owner", "acme", "--repository", "fleet")
TOKENS = {"github": "GITHUB_TOKEN", "gitlab": "GITLAB_TOKEN", "gitea": "GITEA_TOKEN"}


def refused(words: Sequence[str], *, stdin: str = "", **environment: str) -> str:
    result = CliRunner(env=environment).invoke(bootstrap, words, input=stdin)
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)


def test_there_is_a_command_for_each_service() -> None:
    assert isinstance(bootstrap, click.Group)
    assert set(bootstrap.commands) == {"git", *TOKENS}


@pytest.mark.parametrize(("service", "variable"), TOKENS.items())
def test_a_missing_token_is_asked_for_by_its_variable(service: str, variable: str) -> None:
    assert f"set {variable}" in refused([service, *AT], **{variable: ""})


@pytest.mark.parametrize("token", ["two words", "line\x07", "ümlaut"])
def test_what_no_header_can_carry_is_no_token(token: str) -> None:
    told = refused(["github", *AT], stdin=f"{token}\n", GITHUB_TOKEN="")

    assert "there is no token" in told
    assert token not in told


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--owner", "acme/../.."),
        ("--owner", ""),
        ("--repository", "fleet/keys"),
        ("--repository", ".."),
        ("--hostname", "github.com/evil"),
        ("--hostname", "ada@github.com"),
        ("--ssh-hostname", "a b"),
    ],
)
def test_names_cannot_lead_elsewhere(option: str, value: str) -> None:
    words = ["github", *AT, option, value]

    assert refused(words, GITHUB_TOKEN="t").startswith(f"{option}: ")


@pytest.mark.parametrize("service", ["git", "github"])
def test_lockdown_is_refused_with_the_reason(service: str) -> None:
    place = ("--url", "https://git.example.com/a") if service == "git" else AT
    words = [service, *place, "--components", "ha,lockdown"]

    assert "with lockdown no Kustomization" in refused(words, GITHUB_TOKEN="t")


def test_a_file_that_cannot_be_read_is_told() -> None:
    words = ["git", "--url", "ssh://git@a/b", "--private-key-file", "/nonexistent"]

    assert refused(words) == "cannot read /nonexistent: No such file or directory"
