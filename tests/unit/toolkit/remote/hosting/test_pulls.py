"""Where pull requests are asked for, and with what: no request is sent here."""

import pytest

from toolkit.errors import StalledError
from toolkit.remote.git.auth import GitAuth
from toolkit.remote.hosting.pulls import Pulls
from toolkit.remote.http.http import Http

LOGIN = GitAuth(username="git", password="token-s3cret")


def pulls(name: str = "github", url: str = "", auth: GitAuth = LOGIN) -> Pulls:
    return Pulls.of(
        Http(),
        name,
        url or "https://git.example.com/acme/fleet.git",
        auth,
        head="images",
        base="main",
        timeout=30,
    )


@pytest.mark.parametrize(
    ("name", "url", "expected"),
    [
        (
            "github",
            "https://github.com/acme/fleet",
            "https://api.github.com/repos/acme/fleet/pulls",
        ),
        (
            "github",
            "https://git.example.com:8443/acme/fleet.git/",
            "https://git.example.com:8443/api/v3/repos/acme/fleet/pulls",
        ),
        (
            "gitlab",
            "https://git.example.com/acme/deep/fleet.git?x=y",
            "https://git.example.com/api/v4/projects/acme%2Fdeep%2Ffleet/merge_requests",
        ),
        (
            "gitea",
            "https://git.example.com/acme/fleet.git",
            "https://git.example.com/api/v1/repos/acme/fleet/pulls",
        ),
    ],
)
def test_the_api_is_that_of_the_host_of_the_repository(name: str, url: str, expected: str) -> None:
    asked = pulls(name, url)

    assert asked.url == expected
    assert asked.endpoint.bearer_token == "token-s3cret"


@pytest.mark.parametrize(
    ("name", "url", "auth", "words"),
    [
        ("bitbucket", "", LOGIN, "write one of github, gitlab, gitea"),
        ("github", "http://git.example.com/a/b", LOGIN, "need a repository over https"),
        ("github", "ssh://git@git.example.com/a/b", LOGIN, "need a repository over https"),
        ("github", "", GitAuth(), "a Secret with a token"),
    ],
)
def test_what_cannot_be_asked_is_told(name: str, url: str, auth: GitAuth, words: str) -> None:
    with pytest.raises(StalledError, match=words):
        pulls(name, url, auth)


def test_a_token_is_shown_nowhere() -> None:
    assert "token-s3cret" not in repr(pulls())
