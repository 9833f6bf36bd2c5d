"""What `penstock bootstrap` refuses before it asks a cluster or a service."""

import re
from collections.abc import Sequence
from pathlib import Path

import click
import pysequoia
import pytest
from click.testing import CliRunner

from cli.bootstrap import choices
from cli.commands.bootstrap import bootstrap
from cli.errors import UsageError
from toolkit.remote.git import signing

AT = ("--owner", "acme", "--repository", "fleet")
TOKENS = {
    "github": "GITHUB_TOKEN",
    "gitlab": "GITLAB_TOKEN",
    "gitea": "GITEA_TOKEN",
    "bitbucket-server": "BITBUCKET_TOKEN",
}


def refused(words: Sequence[str], *, stdin: str = "", **environment: str) -> str:
    result = CliRunner(env=environment).invoke(bootstrap, words, input=stdin)
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)


def test_there_is_a_command_for_each_service() -> None:
    assert isinstance(bootstrap, click.Group)
    assert set(bootstrap.commands) == {"git", *TOKENS}


@pytest.mark.parametrize(("service", "variable"), TOKENS.items())
def test_a_missing_token_is_asked_for_by_its_variable(service: str, variable: str) -> None:
    words = [service, *AT, "--hostname", "git.example.com"]

    assert f"set {variable}" in refused(words, **{variable: ""})


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


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--ssh-signing-reuse-private-key",), "needs --private-key-file"),
        (("--gpg-key-ring", "KEY", "--ssh-signing-key-file", "KEY"), "each sign the commit"),
        (("--gpg-key-ring", "KEY"), "--gpg-key-ring: .* holds no key that signs today"),
        (("--ssh-signing-key-file", "KEY"), "--ssh-signing-key-file: .* holds no key"),
        (("--token-auth", "--team", "one, a b"), "'a b' is not NAME or NAME:ACCESS"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(
    words: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("SECRET-MARKER")
    named = [word.replace("KEY", str(tmp_path / "key")) for word in words]

    said = refused(["github", *AT, *named], GITHUB_TOKEN="t")

    assert re.search(told, said), said
    assert "SECRET-MARKER" not in said


def test_gitlab_has_one_way_to_fetch_over_https() -> None:
    words = ["gitlab", *AT, "--token-auth", "--deploy-token-auth"]

    assert "--deploy-token-auth replaces --token-auth" in refused(words, GITLAB_TOKEN="t")


def test_a_commit_is_signed_with_the_key_whose_fingerprint_is_named(tmp_path: Path) -> None:
    file = tmp_path / "secret.asc"
    file.write_bytes(bytes(pysequoia.Tsk.generate("Ada <ada@example.com>")))
    said = dict.fromkeys(("private_key_file", "ssh_signing_key_file"))
    said |= {"reuse": False, "gpg_key_ring": file, "gpg_passphrase": "", "ssh_signing_password": ""}

    found = choices.signing_key({**said, "gpg_key_id": ""})

    assert found is not None
    whole = signing.fingerprint(found)
    assert choices.signing_key({**said, "gpg_key_id": f"0x{whole[-16:].upper()}"}) == found
    with pytest.raises(UsageError, match="gpg --export-secret-keys ABCD"):
        choices.signing_key({**said, "gpg_key_id": "ABCD"})
