"""Addresses of repositories, and what of them may be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import StalledError
from toolkit.remote.git.errors import GitSpecError
from toolkit.remote.git.url import GitUrl


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://example.org/a/b.git", ("https", "example.org", 443)),
        ("http://Example.org:8080/a", ("http", "example.org", 8080)),
        ("ssh://git@example.org/a", ("ssh", "example.org", 22)),
        ("ssh://git@[2001:db8::1]:2222/a", ("ssh", "2001:db8::1", 2222)),
    ],
)
def test_url_is_taken_apart(text: str, origin: tuple[str, str, int]) -> None:
    assert GitUrl.parse(text).origin == origin


@pytest.mark.parametrize(
    "text",
    [
        "file:///etc/passwd",
        "git://example.org/a",
        "ext::sh -c true",
        "git@example.org:a/b.git",
        "https://",
        "https:///a",
        "/srv/git/a",
        "https://example.org:99999/a",
        "https://exa mple.org/a",
        "https://example.org/a\nHost: b",
        "",
    ],
)
def test_other_addresses_are_refused_for_good(text: str) -> None:
    with pytest.raises(StalledError) as caught:
        GitUrl.parse(text)

    assert caught.value.reason == "URLInvalid"


@pytest.mark.parametrize("url", ["https://ada:hunter2@example.org/a", "ssh://ada:hunter2@h/a"])
def test_user_information_is_never_printed(url: str) -> None:
    parsed = GitUrl.parse(url)

    assert parsed.password == "hunter2"
    assert "hunter2" not in str(parsed)
    assert "ada" not in str(parsed)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://ada:hunter2@example.org/a",
        "https://ada:hunter2#x@example.org/a",
        "https://ada:x#hunter2@example.org/a",
        "ftp://ada:hunter2#x@example.org/a",
        "ftp://ada/hunter2@example.org/a",
    ],
)
def test_user_information_is_not_printed_for_a_bad_url(url: str) -> None:
    with pytest.raises(StalledError) as caught:
        GitUrl.parse(url)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("base", "reference", "expected"),
    [
        ("https://h/org/repo.git", "../other.git", "https://h/org/other.git"),
        ("https://h/org/repo.git", "./sub.git", "https://h/org/repo.git/sub.git"),
        ("https://h:8443/org/repo", "../../x/y", "https://h:8443/x/y"),
        ("https://h/a", "../../../../b", "https://h/b"),
        ("ssh://git@h:2222/org/repo", "../other", "ssh://h:2222/org/other"),
        ("https://h/a", "https://other/b", "https://other/b"),
        ("https://h/a", "git@other:org/b.git", "ssh://other/org/b.git"),
    ],
)
def test_submodule_address_is_resolved_like_git_does(
    base: str, reference: str, expected: str
) -> None:
    assert str(GitUrl.parse(base).join(reference)) == expected


def test_relative_submodule_keeps_the_ssh_user() -> None:
    joined = GitUrl.parse("ssh://deploy@h/org/repo").join("../other")

    assert joined.username == "deploy"


def test_scp_address_keeps_its_user() -> None:
    assert GitUrl.parse("https://h/a").join("deploy@other:b").username == "deploy"


@pytest.mark.parametrize("reference", ["file:///etc", "/srv/git/x", "ext::sh -c true", "git://h/a"])
def test_submodule_at_another_kind_of_address_is_refused(reference: str) -> None:
    with pytest.raises(StalledError):
        GitUrl.parse("https://h/a").join(reference)


@given(st.text(max_size=60))
def test_any_text_is_a_url_or_refused(text: str) -> None:
    for url in (text, f"https://{text}"):
        try:
            parsed = GitUrl.parse(url)
        except StalledError:
            continue
        assert GitUrl.parse(str(parsed)).origin == parsed.origin


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("git@github.com:org/fleet.git", ": write ssh://git@github.com/org/fleet.git"),
        ("github.com/org/fleet", ": write https://github.com/org/fleet"),
        ("git.example.com:8443/org/fleet", ": write https://git.example.com:8443/org/fleet"),
        ("ssh://git@github.com:org/fleet", "a slash between host and path, not a colon"),
        ("ada:hunter2@git.example.com:org/fleet", "and name a host"),
        ("ada:hunter2@git.example.com/org", "and name a host"),
        ("fleet", "and name a host"),
    ],
)
def test_an_address_without_a_scheme_tells_its_url(text: str, told: str) -> None:
    with pytest.raises(GitSpecError) as caught:
        GitUrl.parse(text)

    assert str(caught.value).endswith(told)
    assert "hunter2" not in str(caught.value)
