"""Who is trusted with what, and what is asked for where something is missing."""

import asyncssh
import pytest

from cli.bootstrap import access
from cli.bootstrap.access import Access, Given
from cli.errors import UsageError

HTTPS = "https://git.example.com/fleet"
SSH = "ssh://git@git.example.com/fleet"
HOSTS = b"git.example.com ssh-ed25519 AAAA\n"
EARLIER = {"identity": b"key", "identity.pub": b"public", "known_hosts": HOSTS}


def reach(
    url: str, given: Given, earlier: dict[str, bytes] | None = None, *, added: bool = True
) -> tuple[Access, list[str]]:
    shown: list[str] = []

    def ask(public: str) -> bool:
        shown.append(public)
        return added

    return access.of_repository(url, given, earlier or {}, ask), shown


def test_a_password_is_pushed_and_fetched_with() -> None:
    made, _ = reach(HTTPS, Given(username="ada", password="s3cret", ca=b"pem"))

    assert made.push_url == made.sync_url == HTTPS
    assert (made.push.username, made.push.password, made.push.ca) == ("ada", "s3cret", b"pem")
    assert made.secret == {"username": b"ada", "password": b"s3cret", "ca.crt": b"pem"}
    assert "s3cret" not in repr(made)


def test_a_repository_without_credentials_has_no_secret() -> None:
    made, _ = reach(HTTPS, Given())

    assert made.secret == {}


@pytest.mark.parametrize(
    ("url", "given", "message"),
    [
        ("https://ada:s3cret@git.example.com/a", Given(), "credentials in a URL would be commit"),
        ("https://ada@git.example.com/a", Given(), "credentials in a URL would be committed"),
        ("ssh://ada:s3cret@git.example.com/a", Given(), "credentials in a URL would be committed"),
        ("http://git.example.com/a", Given(username="a", password="s3cret"), "allow-insecure-http"),
        (HTTPS, Given(username="ada"), "needed together"),
        (HTTPS, Given(password="s3cret"), "GIT_PASSWORD"),
        (SSH, Given(), "ssh-keyscan git.example.com"),
        ("ssh://git@git.example.com:2222/a", Given(), "ssh-keyscan -p 2222 git.example.com"),
        (SSH, Given(private_key=b"key"), "--known-hosts-file"),
    ],
)
def test_what_is_missing_or_would_be_shown_is_told(url: str, given: Given, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        reach(url, given)

    assert "s3cret" not in str(refused.value)


def test_plain_http_is_for_those_who_say_so() -> None:
    given = Given(username="ada", password="s3cret", plain_http=True)

    made, _ = reach("http://git.example.com/a", given)

    assert made.push.password == "s3cret"


def test_a_key_of_the_users_is_kept_with_its_passphrase() -> None:
    given = Given(private_key=b"key", known_hosts=HOSTS, password="s3cret")

    made, shown = reach(SSH, given)

    assert made.secret == {"identity": b"key", "known_hosts": HOSTS, "password": b"s3cret"}
    assert not shown


def test_a_new_key_is_shown_and_used_once_it_is_added() -> None:
    made, shown = reach(SSH, Given(known_hosts=HOSTS))

    key = asyncssh.import_private_key(made.secret["identity"])
    assert key.export_public_key("openssh").split()[:2] == shown[0].encode().split()
    assert shown[0].startswith("ssh-ed25519 ")
    assert made.push.identity == made.secret["identity"]


def test_a_new_key_that_is_not_added_ends_the_command() -> None:
    with pytest.raises(UsageError, match="--private-key-file"):
        reach(SSH, Given(known_hosts=HOSTS), added=False)


def test_the_key_and_the_hosts_of_an_earlier_run_are_used_again() -> None:
    made, shown = reach(SSH, Given(), EARLIER)

    assert made.secret == EARLIER
    assert not shown
    assert access.deploy_key(EARLIER, {}) == (b"key", b"public")


def test_hosts_that_are_named_now_replace_those_of_an_earlier_run() -> None:
    made, _ = reach(SSH, Given(known_hosts=b"other ssh-ed25519 AAAA\n"), EARLIER)

    assert made.secret["known_hosts"] == b"other ssh-ed25519 AAAA\n"


def test_a_bearer_token_is_the_password_without_a_user() -> None:
    made, _ = reach(HTTPS, Given(password="t0ken", bearer=True))

    assert made.secret == {"bearerToken": b"t0ken"}
    assert made.push.bearer_token == "t0ken"


@pytest.mark.parametrize("given", [Given(bearer=True), Given(username="a", bearer=True)])
def test_a_bearer_token_needs_a_token_alone(given: Given) -> None:
    with pytest.raises(UsageError, match="--with-bearer-token"):
        reach(HTTPS, given)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ({}, "ssh-ed25519"),
        ({"ssh_key_algorithm": "ecdsa", "ssh_ecdsa_curve": "p521"}, "ecdsa-sha2-nistp521"),
        ({"ssh_key_algorithm": "rsa", "ssh_rsa_bits": 2048}, "ssh-rsa"),
    ],
)
def test_a_key_is_made_of_the_kind_that_is_wanted(key: dict[str, object], kind: str) -> None:
    _, public = access.deploy_key({}, key)

    assert public.split()[0].decode() == kind
