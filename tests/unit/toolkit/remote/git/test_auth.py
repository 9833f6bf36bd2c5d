"""Secrets as Flux users write them become credentials, or an error that names the key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import PenstockError
from toolkit.remote.git.auth import GitAuth, Proxy, Scheme
from toolkit.remote.git.errors import GitAuthError
from toolkit.remote.git.url import GitUrl

KEYS = [
    "username",
    "password",
    "bearerToken",
    "identity",
    "identity.pub",
    "known_hosts",
    "ca.crt",
    "caFile",
    "tls.crt",
    "tls.key",
]


def test_user_and_password_are_read() -> None:
    auth = GitAuth.from_secret({"username": b"ada", "password": b"hunter2\n"}, scheme="https")

    assert (auth.username, auth.password) == ("ada", "hunter2")


def test_bearer_token_is_read() -> None:
    auth = GitAuth.from_secret({"bearerToken": b"t0ken"}, scheme="https")

    assert auth.bearer_token == "t0ken"


@pytest.mark.parametrize("key", ["ca.crt", "caFile"])
def test_certificates_are_read(key: str) -> None:
    data = {key: b"CA", "tls.crt": b"CERT", "tls.key": b"KEY"}

    auth = GitAuth.from_secret(data, scheme="https")

    assert (auth.ca, auth.client_cert, auth.client_key) == (b"CA", b"CERT", b"KEY")


def test_ssh_key_is_read_with_its_passphrase() -> None:
    data = {
        "identity": b"KEY",
        "known_hosts": b"h ssh-ed25519 A",
        "password": b"p",
        "username": b"u",
    }

    auth = GitAuth.from_secret(data, scheme="ssh")

    assert (auth.identity, auth.passphrase) == (b"KEY", "p")
    assert auth.known_hosts == b"h ssh-ed25519 A"
    assert auth.password is None


@pytest.mark.parametrize(
    ("scheme", "data", "named"),
    [
        ("ssh", {}, "identity"),
        ("ssh", {"identity": b"k"}, "known_hosts"),
        ("ssh", {"identity": b"k", "known_hosts": b" \n"}, "known_hosts"),
        ("https", {"username": b"ada"}, "password"),
        ("https", {"password": b"x"}, "username"),
        ("https", {"username": b"a", "password": b"b", "bearerToken": b"c"}, "bearerToken"),
        ("https", {"tls.crt": b"c"}, "tls.key"),
        ("https", {"tls.key": b"k"}, "tls.crt"),
        ("https", {"bearerToken": b"a\nX-Evil: 1"}, "bearerToken"),
        ("https", {"bearerToken": b"\xff"}, "bearerToken"),
    ],
)
def test_wrong_secret_is_refused_with_the_key_in_question(
    scheme: Scheme, data: dict[str, bytes], named: str
) -> None:
    with pytest.raises(PenstockError, match=named) as caught:
        GitAuth.from_secret(data, scheme=scheme)

    assert caught.value.reason == "AuthenticationFailed"


def test_nothing_secret_is_printed() -> None:
    secret = b"s3cr3t"
    auth = GitAuth(
        username="ada",
        password=secret.decode(),
        bearer_token=secret.decode(),
        identity=secret,
        passphrase=secret.decode(),
        client_key=secret,
        proxy=Proxy(address="http://p", username="ada", password=secret.decode()),
    )

    assert "s3cr3t" not in repr(auth)


def test_other_origins_get_no_credentials() -> None:
    proxy = Proxy(address="http://proxy:3128")
    auth = GitAuth(username="ada", password="hunter2", ca=b"CA", proxy=proxy)
    top = GitUrl.parse("https://example.org/a")

    assert auth.for_url(GitUrl.parse("https://example.org:443/b"), top=top) == auth
    for other in ("https://example.org:8443/b", "http://example.org/b", "https://evil.org/b"):
        assert auth.for_url(GitUrl.parse(other), top=top) == GitAuth(proxy=proxy)


def test_proxy_is_read() -> None:
    data = {"address": b"http://proxy:3128\n", "username": b"ada", "password": b"x"}

    assert Proxy.from_secret(data) == Proxy(
        address="http://proxy:3128", username="ada", password="x"
    )


@pytest.mark.parametrize("address", [b"", b"proxy:3128", b"ftp://proxy", b"http://"])
def test_proxy_without_a_usable_address_is_refused(address: bytes) -> None:
    with pytest.raises(PenstockError, match="'address'"):
        Proxy.from_secret({"address": address})


@given(
    data=st.dictionaries(st.sampled_from(KEYS), st.binary(max_size=20)),
    scheme=st.sampled_from(["http", "https", "ssh"]),
)
def test_any_secret_is_read_or_refused(data: dict[str, bytes], scheme: Scheme) -> None:
    try:
        auth = GitAuth.from_secret(data, scheme=scheme)
    except GitAuthError:
        return
    assert not (auth.bearer_token and auth.username)
    assert scheme != "ssh" or (auth.identity and auth.known_hosts)
