"""What a Provider leads to, and what its Secret must hold."""

import asyncio
import base64
from typing import Any

import msgspec
import pytest

from controllers.notification.sending.keyfiles import KeyFiles
from controllers.notification.sending.signing import SignIns
from controllers.notification.sending.targets import Place, Reachable, Targets
from crds.notification import Provider
from tests.fakes.apiserver import FakeApiServer
from toolkit.errors import PenstockError, StalledError
from toolkit.kube.secrets import Secrets
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.errors import AuthError
from toolkit.remote.git.github import GitHubTokens
from toolkit.remote.http.http import Http

INSTALLED = Reachable(plain_http=False, private=frozenset({"penstock-system"}))


def place(
    data: dict[str, Any], *, namespace: str = "apps", reachable: Reachable = INSTALLED, **spec: Any
) -> Place:
    """Return the place of a Provider whose Secret holds ``data``."""
    provider = msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": namespace},
            "spec": {"type": "generic", "secretRef": {"name": "s"}, **spec},
        },
        Provider,
    )

    async def main() -> Place:
        server = FakeApiServer()
        raw = {key: v if isinstance(v, bytes) else v.encode() for key, v in data.items()}
        encoded = {key: base64.b64encode(value).decode() for key, value in raw.items()}
        server.put("secrets", "s", namespace, data=encoded)
        async with server.running() as client, Http() as http:
            sign_ins = SignIns(
                cloud=Cloud(http, cache=TokenCache()),
                github=GitHubTokens(http),
                accounts=ServiceAccountTokens(client, cache=TokenCache()),
                keys=KeyFiles(http, TokenCache()),
            )
            return await Targets(Secrets(client), reachable, sign_ins).place(provider)

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("namespace", "reachable", "private"),
    [
        ("apps", INSTALLED, False),
        ("penstock-system", INSTALLED, True),
        ("apps", Reachable(plain_http=False, private=frozenset({"*"})), True),
        ("apps", Reachable(plain_http=False, private=frozenset({"apps"})), True),
    ],
)
def test_private_addresses_are_for_the_namespaces_that_the_administrator_names(
    namespace: str, reachable: Reachable, *, private: bool
) -> None:
    found = place({"address": "https://a.example/x"}, namespace=namespace, reachable=reachable)

    assert found.endpoint.private is private


def test_a_secret_wins_over_the_spec_and_nothing_of_it_is_shown() -> None:
    data = {"address": "https://a.example/services/T000/secret-path", "token": "t0ken-t0ken"}
    found = place(data, address="https://b.example/")

    shown = found.masked("cannot ask https://a.example/services/T000/secret-path: t0ken-t0ken")

    assert found.target.address == data["address"]
    assert "secret-path" not in shown
    assert "t0ken" not in shown
    assert "secret-path" not in repr(found)


@pytest.mark.parametrize(
    ("kind", "address", "left"),
    [
        ("generic", "https://me:hunter%402@a.example/x?y=1", "https://a.example/x?y=1"),
        ("alertmanager", "https://me:hunter%402@a.example/x", "https://a.example/x"),
        ("nats", "nats://me:hunter%402@a.example:4222", "nats://a.example:4222"),
    ],
)
def test_a_login_in_the_address_of_a_secret_is_taken_out(
    kind: str, address: str, left: str
) -> None:
    found = place({"address": address}, type=kind, channel="events")

    target = found.target
    assert (target.address, target.username, target.password) == (left, "me", "hunter@2")
    assert found.masked("refused hunter@2") == "refused *****"


@pytest.mark.parametrize(
    ("data", "spec", "why"),
    [
        ({}, {}, "needs an address"),
        ({"address": "ftp://a.example"}, {}, "not usable"),
        ({"address": "https://me:hunter2@a.example"}, {"type": "slack"}, "as 'username' and"),
        ({"address": "https://a.example"}, {"type": "generic-hmac"}, "needs a token"),
        ({"address": "https://a.example", "token": b"\xff"}, {}, "not UTF-8"),
        ({"address": "https://a.example", "headers": "- a"}, {}, "1 to 32 lines"),
        ({"address": "https://a.example", "headers": "a: {b: c}"}, {}, "cannot be a header"),
        ({"address": "https://a.example", "headers": '"a b": c'}, {}, "cannot be a header"),
        ({"address": "https://a.example", "headers": 'a: "b\\r\\nc: d"'}, {}, "cannot be a header"),
        ({"address": "https://a.example", "headers": "Host: b.example"}, {}, "sets 'Host'"),
        (
            {"address": "https://a.example", "headers": 'content-length: "0"'},
            {},
            "belongs to the connection",
        ),
        (
            {"address": "https://a.example", "headers": "Transfer-Encoding: chunked"},
            {},
            "belongs to the connection",
        ),
        ({"address": "https://a.example", "headers": "&a [*a]"}, {}, "cannot be read"),
        (
            {"address": "https://a.example", "headers": "\n".join(f"a{n}: b" for n in range(33))},
            {},
            "1 to 32 lines",
        ),
        ({"address": "https://a.example", "proxy": "gopher://b"}, {}, "proxy secret needs"),
    ],
)
def test_a_secret_that_cannot_be_used_says_why(
    data: dict[str, Any], spec: dict[str, Any], why: str
) -> None:
    with pytest.raises(AuthError, match=why) as caught:
        place(data, **spec)

    assert "hunter2" not in str(caught.value)


def test_what_is_wrong_in_the_spec_stalls() -> None:
    with pytest.raises(StalledError, match=r"spec\.channel"):
        place({"token": "t"}, type="telegram")


def test_a_missing_secret_is_named() -> None:
    with pytest.raises(PenstockError, match="apps/other"):
        place({}, secretRef={"name": "other"})


@pytest.mark.parametrize(
    "address",
    ["https://alerts.example.com:5999/alerts/in", "https://hooks.example.com/T000/abcdefgh"],
)
def test_an_address_of_the_spec_is_shown_in_errors(address: str) -> None:
    found = place({"token": "t0ken-t0ken"}, address=address)
    text = f"cannot ask {address}: connection refused"

    assert found.masked(text) == text
    assert found.masked("refused t0ken-t0ken") == "refused *****"


def test_an_address_of_the_secret_is_masked_beside_one_of_the_spec() -> None:
    found = place({"address": "https://a.example/secret-path"}, address="https://b.example/plain")

    text = found.masked("https://a.example/secret-path, https://b.example/plain, /secret-path")
    assert text == "*****, https://b.example/plain, /*****"


def test_the_proxy_of_the_secret_is_masked() -> None:
    data = {"proxy": "http://u:passw0rd@proxy.example:3128"}
    found = place(data, address="https://b.example/plain")

    assert "passw0rd" not in found.masked(f"cannot connect to {data['proxy']}")
