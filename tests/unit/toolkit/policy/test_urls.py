"""What is compared with a pattern is what a client connects to."""

import pytest

from toolkit.policy import urls

ACME = "https://github.com/acme/**"
AZURE = "dev.azure.com/acme"
CODECOMMIT = "git-codecommit.us-east-1.amazonaws.com/v1/repos/a"
ECR = "oci://123.dkr.ecr.eu-west-1.amazonaws.com/a__b/c--d"
GOOGLE = "https://source.developers.google.com/p/acme.example:fleet/r/a"
ESCAPES = (
    *("..", ".", "", "...", "..;", "..;x=y", ".;", ";", ";x=y", "a.", "a..b"),
    *("%2e%2e", "%2E%2e;", ".%2e", "%2e", "..%3b", "..%3Bx", "%3b", "a%2e"),
    *("..%20", ".%20.", "..+", "%20", "a%20", "%20a", "..%00", "%00", "%0a", "%09"),
    *("%252e%252e", "..%252f", "%25", "..%2f", "%2F", "%2f..", "..%5c", "%5C", "..\\", "\\"),
    *("%u002e%u002e", "%c0%ae%c0%ae", "%c0%af", "%e0%80%ae", "%ff", "%", "%2", "%zz"),
    *("%EF%BC%8E%EF%BC%8E", "%E2%80%A5", "%EF%BC%8F", "%C2%A5", "%C2%85", "%e2%80%8b", "%C2%B2"),
    *("\t..", "..\n", "\n", "\u2025", "?", "?x", "#", "%23", "%3f", "(S(x))", "%28S%29"),
    *("a::$DATA", "%3a%3a$DATA", ",x", "x=y", "'", '"', "|", "^", "`", "<", "{x}", "[x]", "!", "&"),
)
"""Parts of a path that some servers read as another path than others do."""


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("https://GitHub.com:443/Acme/app/", "https://github.com/Acme/app"),
        ("HTTPS://github.com/acme", "https://github.com/acme"),
        ("ssh://git@github.com:22/acme/app.git", "ssh://github.com/acme/app.git"),
        ("ssh://ada@git.example/a", "ssh://ada@git.example/a"),
        ("ssh://ada:secret@git.example:22/a", "ssh://ada@git.example/a"),
        ("ssh://git:secret@git.example/a", "ssh://git.example/a"),
        ("http://user:pass@git.example:8080/a", "http://git.example:8080/a"),
        ("https://[::1]:8443/a", "https://[::1]:8443/a"),
        ("oci+http://registry.example:80/a", "oci+http://registry.example/a"),
        ("https://[0:0::1]/a", "https://[::1]/a"),
        (f"https://acme@{AZURE}/My%20App/_git/a", f"https://{AZURE}/My%20App/_git/a"),
        (f"https://{AZURE}/Gr%c3%b6%C3%9Fe/_git/a", f"https://{AZURE}/Gr%C3%B6%C3%9Fe/_git/a"),
        ("ssh://git@ssh.dev.azure.com/v3/a/b%20c/d", "ssh://ssh.dev.azure.com/v3/a/b%20c/d"),
        ("https://bitbucket.example/scm/~kim/a.git", "https://bitbucket.example/scm/~kim/a.git"),
        ("https://bitbucket.example/scm/%7ekim/a", "https://bitbucket.example/scm/%7Ekim/a"),
        ("https://github.com/acme/.github", "https://github.com/acme/.github"),
        ("https://gitea.example/@acme/a+b_c-d.e.git", "https://gitea.example/@acme/a+b_c-d.e.git"),
        (GOOGLE, GOOGLE),
        (f"ssh://APKAEXAMPLE@{CODECOMMIT}", f"ssh://APKAEXAMPLE@{CODECOMMIT}"),
        ("ssh://ada@git.example/~/a", "ssh://ada@git.example/~/a"),
        ("ssh://git@git.example/~kim/a", "ssh://git.example/~kim/a"),
        ("https://git.example/~/a", "https://git.example/~/a"),
        (
            "https://git-codecommits.example/v1/repos/a",
            "https://git-codecommits.example/v1/repos/a",
        ),
        (ECR, ECR),
        ("oci://registry:5000/a", "oci://registry:5000/a"),
        ("https://acme.blob.core.windows.net/$web", "https://acme.blob.core.windows.net/$web"),
        ("http://gitea.1team:3000/a", "http://gitea.1team:3000/a"),
        ("http://10.1.2.3/a", "http://10.1.2.3/a"),
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
        *(f"https://github.com/acme/{escape}/evil/app" for escape in ESCAPES),
        *(f"https://github.com/acme/{escape}" for escape in ESCAPES if escape),
        "https://github.com/acme/app//",
        "https://github.com/acme/*",
        "https://github.com./acme",
        "https://.github.com/acme",
        "https://git..hub.com/acme",
        "https://-github.com/acme",
        "https://github.com:/acme",
        "https://github.com:0443/acme",
        "https://github.com:0/acme",
        "https://github.com:65536/acme",
        "https://github.com:443:443/acme",
        "https://github.com:443@evil.example@github.com/acme",
        "https://user%40@github.com/acme",
        "https://git;hub.com/acme",
        "https://github.com\uff0facme/app",
        "https://github.com/acme/gr\u00f6\u00dfe",
        "http://2130706433/acme",
        "http://0x7f000001/acme",
        "http://127.1/acme",
        "http://0177.0.0.1/acme",
        "https://[::1%25eth0]/acme",
        "https://[::1/acme",
        "https://[::g]/acme",
        "https://[1:2]/acme",
        "//github.com/acme",
        "https:/github.com/acme",
        "https:github.com/acme",
        "github.com/acme",
        "git@github.com:acme/app",
        "",
        *(f"https://{login}{CODECOMMIT}" for login in ("", "key:secret@", "a-at-1:b@")),
        *(f"ssh://{login}{CODECOMMIT}" for login in ("", "git@")),
        "https://GIT-CodeCommit.eu-west-1.amazonaws.com:443/v1/repos/a",
        "https://git-codecommit-fips.us-east-1.amazonaws.com/v1/repos/a",
        "https://git-codecommit.cn-north-1.amazonaws.com.cn/v1/repos/a",
        "https://vpce-1-2.git-codecommit.us-east-1.vpce.amazonaws.com/v1/repos/a",
        *(f"ssh://{login}git.example/{home}/a" for login in ("", "git@") for home in ("~", "%7E")),
    ],
)
def test_a_url_of_two_meanings_has_no_form(url: str) -> None:
    with pytest.raises(urls.UnclearURLError):
        urls.canonical(url)


def test_a_url_keeps_its_form() -> None:
    url = urls.canonical("HTTPS://u@GitHub.com:443/a%c3%b6/My%20App/")

    assert urls.canonical(url) == url


@pytest.mark.parametrize(
    "pattern", ["https://*/acme/**", "https://*.example/a*b/*", "http://10.*/a"]
)
def test_a_pattern_has_the_form_of_the_urls_that_it_matches(pattern: str) -> None:
    assert urls.canonical_pattern(pattern) == pattern


@pytest.mark.parametrize("escape", ESCAPES)
def test_a_recorded_url_must_still_have_one_meaning(escape: str) -> None:
    assert urls.admits([ACME], "https://github.com/acme/app")
    assert not urls.admits([ACME], f"https://github.com/acme/{escape}/evil/app")
    assert not urls.admits([ACME], "")


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


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("ssh://git.example/**", False),
        ("ssh://*/**", False),
        ("ssh://*.example/**", False),
        ("*://git.example/**", False),
        ("ssh://eve@git.example/**", False),
        ("ssh://ada@git.example/**", True),
        ("ssh://*@git.example/**", True),
    ],
)
def test_an_account_of_a_server_must_be_named(pattern: str, *, matched: bool) -> None:
    assert urls.matches(pattern, urls.canonical("ssh://ada@git.example/acme/app.git")) is matched
    assert not urls.matches("ssh://ada@git.example/**", urls.canonical("ssh://git.example/a"))
    assert urls.canonical_pattern(pattern.replace("*:", "ssh:")) == pattern.replace("*:", "ssh:")


def test_a_hostile_pattern_costs_no_time() -> None:
    assert not urls.matches("https://" + "**a" * 200, "https://" + "a" * 2000 + "b")
