"""Which login of a pull Secret is for which repository."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.remote.http.http import AuthError, Endpoint
from toolkit.remote.oci import dockerconfig
from toolkit.remote.oci.dockerconfig import CONFIG_JSON, DOCKERCFG, Login
from toolkit.remote.oci.oci import Repository


def config(**auths: Any) -> dict[str, bytes]:
    return {CONFIG_JSON: json.dumps({"auths": auths}).encode()}


def entry(name: str) -> dict[str, str]:
    return {"username": name, "password": "x"}


def found(url: str, *secrets: dict[str, bytes]) -> str | None:
    login = dockerconfig.login(secrets, Repository.parse(url))
    return login.username if login else None


@pytest.mark.parametrize(
    ("key", "url", "fits"),
    [
        ("registry.example.com", "oci://registry.example.com/app", True),
        ("https://registry.example.com", "oci://registry.example.com/app", True),
        ("https://registry.example.com/v1/", "oci://registry.example.com/app", True),
        ("https://registry.example.com/v2/", "oci://registry.example.com/app", True),
        ("REGISTRY.example.com", "oci://registry.example.com/app", True),
        ("registry.example.com/team", "oci://registry.example.com/team/app", True),
        ("registry.example.com/team/", "oci://registry.example.com/team/app", True),
        ("registry.example.com/team/app", "oci://registry.example.com/team/app", True),
        ("registry.example.com/team", "oci://registry.example.com/team-two/app", False),
        ("registry.example.com/team/app/x", "oci://registry.example.com/team/app", False),
        ("registry.example.com:5000", "oci://registry.example.com:5000/app", True),
        ("registry.example.com:5000", "oci://registry.example.com/app", False),
        ("registry.example.com", "oci://registry.example.com:5000/app", False),
        ("*.example.com", "oci://registry.example.com/app", True),
        ("reg*.example.com", "oci://registry.example.com/app", True),
        ("*.example.com", "oci://a.registry.example.com/app", False),
        ("*", "oci://registry.example.com/app", False),
        ("*.com", "oci://registry.example.com/app", False),
        ("[r]egistry.example.com", "oci://registry.example.com/app", False),
        ("example.com", "oci://registry.example.com/app", False),
        ("evil-registry.example.com", "oci://registry.example.com/app", False),
        ("https://index.docker.io/v1/", "oci://docker.io/team/app", True),
        ("docker.io", "oci://index.docker.io/team/app", True),
        ("https://index.docker.io/v1/", "oci://registry.example.com/app", False),
        ("[::1]:5000", "oci://[::1]:5000/app", True),
        ("", "oci://registry.example.com/app", False),
    ],
)
def test_entry_is_for_its_repositories_alone(key: str, url: str, *, fits: bool) -> None:
    assert found(url, config(**{key: entry("ada")})) == ("ada" if fits else None)


def test_most_specific_entry_wins_wherever_it_stands() -> None:
    broad = config(**{"*.example.com": entry("glob"), "registry.example.com": entry("host")})
    narrow = config(**{"registry.example.com/team": entry("team")})

    assert found("oci://registry.example.com/team/app", broad, narrow) == "team"
    assert found("oci://registry.example.com/other/app", broad, narrow) == "host"
    assert found("oci://mirror.example.com/team/app", broad, narrow) == "glob"


def test_first_of_equals_wins() -> None:
    first, second = (config(**{"registry.example.com": entry(name)}) for name in "ab")

    assert found("oci://registry.example.com/app", first, second) == "a"


@pytest.mark.parametrize(
    ("given_entry", "login"),
    [
        ({"auth": "YWRhOmh1OnRlcg=="}, Login(username="ada", password="hu:ter")),
        (
            {"auth": "YWRhOng=", "username": "old", "password": "old"},
            Login(username="ada", password="x"),
        ),
        ({"username": "ada", "password": "x"}, Login(username="ada", password="x")),
        ({"auth": "YWRhOng=", "identitytoken": "refresh"}, Login(identity_token="refresh")),
        ({"username": "<token>", "password": "refresh"}, Login(identity_token="refresh")),
        ({"registrytoken": "bearer"}, Login(registry_token="bearer")),
    ],
)
def test_login_is_read_in_all_its_forms(given_entry: dict[str, str], login: Login) -> None:
    data = config(**{"registry.example.com": given_entry})

    assert dockerconfig.login([data], Repository.parse("oci://registry.example.com/app")) == login


def test_old_form_is_read() -> None:
    data = {DOCKERCFG: json.dumps({"https://registry.example.com": entry("ada")}).encode()}

    assert found("oci://registry.example.com/app", data) == "ada"


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"config.json": b"{}"},
        {CONFIG_JSON: b""},
        {CONFIG_JSON: b"hunter2"},
        {CONFIG_JSON: b'{"auths": {"registry.example.com": "hunter2"}}'},
        config(**{"registry.example.com": {"auth": "hunter2!"}}),
        config(**{"registry.example.com": {"auth": base64.b64encode(b"hunter2").decode()}}),
        config(**{"registry.example.com": {}}),
    ],
)
def test_secret_that_holds_no_login_is_refused_without_repeating_it(data: dict[str, bytes]) -> None:
    with pytest.raises(AuthError) as caught:
        found("oci://registry.example.com/app", data)

    assert caught.value.reason == "AuthenticationFailed"
    assert "hunter2" not in str(caught.value)


def test_login_never_shows() -> None:
    login = Login(password="s3cr3t", identity_token="s3cr3t", registry_token="s3cr3t")

    assert "s3cr3t" not in repr(login)
    assert "s3cr3t" not in repr(login.on(Endpoint()))


@given(data=st.binary(max_size=200))
def test_any_secret_is_read_or_refused(data: bytes) -> None:
    try:
        found("oci://registry.example.com/app", {CONFIG_JSON: data})
    except AuthError:
        return
    assert isinstance(json.loads(data), dict)


@given(key=st.text(max_size=60))
def test_any_key_is_compared(key: str) -> None:
    found("oci://registry.example.com/app", config(**{key: entry("ada")}))
