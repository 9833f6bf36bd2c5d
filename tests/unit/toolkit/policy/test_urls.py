"""What is compared with a pattern is what a client connects to."""

import pytest

from toolkit.policy import urls

ACME = "https://github.com/acme/**"


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("https://GitHub.com:443/Acme/app/", "https://github.com/Acme/app"),
        ("HTTPS://github.com/acme", "https://github.com/acme"),
        ("ssh://git@github.com:22/acme/app.git", "ssh://github.com/acme/app.git"),
        ("http://user:pass@git.example:8080/a", "http://git.example:8080/a"),
        ("https://[::1]:8443/a", "https://[::1]:8443/a"),
        ("oci+http://registry.example:80/a", "oci+http://registry.example/a"),
    ],
)
def test_a_url_has_one_form(url: str, meant: str) -> None:
    assert urls.canonical(url) == meant


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/../evil/app",
        "https://github.com/acme/%2e%2E/evil",
        "https://github.com/acme%2f..%2fevil",
        "https://github.com/acme//evil",
        f"https://github.com/acme/{'a' * 4096}",
        "https://evil.example#.github.com/acme/app",
        "https://evil.example?https://github.com/acme/app",
        "https://evil.example\\@github.com/acme/app",
        "https://github.com\t/acme",
        "https://github%2ecom/acme",
        "https://g\u0131thub.com/acme",
        "https:///acme",
        "https://github.com:port/acme",
        "github.com/acme",
        "git@github.com:acme/app",
        "",
    ],
)
def test_a_url_of_two_meanings_has_no_form(url: str) -> None:
    with pytest.raises(urls.UnclearURLError):
        urls.canonical(url)


@pytest.mark.parametrize(
    ("pattern", "url", "matched"),
    [
        (ACME, "https://github.com/acme/app", True),
        (ACME, "https://github.com/acme/a/b", True),
        (ACME, "https://github.com/acme-evil/app", False),
        (ACME, "https://github.com.evil.example/acme/app", False),
        (ACME, "https://github.com@evil.example/acme/app", False),
        (ACME, "http://github.com/acme/app", False),
        ("https://github.com/acme/*", "https://github.com/acme/app", True),
        ("https://github.com/acme/*", "https://github.com/acme/a/b", False),
        ("https://*.example/**", "https://git.example/a/b", True),
        ("https://*.example/**", "https://evil.test/.example/a", False),
        ("https://git.example/a.b", "https://git.example/aXb", False),
        ("https://git.example/a/", "https://git.example/a", True),
    ],
)
def test_a_pattern_means_the_whole_url(pattern: str, url: str, *, matched: bool) -> None:
    assert urls.matches(pattern, urls.canonical(url)) is matched


def test_a_hostile_pattern_costs_no_time() -> None:
    assert not urls.matches("https://" + "**a" * 200, "https://" + "a" * 2000 + "b")
