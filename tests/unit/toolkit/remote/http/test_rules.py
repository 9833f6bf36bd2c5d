"""Which way a request goes."""

import pytest
from yarl import URL

from toolkit.remote.endpoint import Endpoint
from toolkit.remote.errors import HttpError
from toolkit.remote.http import rules
from toolkit.remote.http.rules import Hop, Route


@pytest.fixture(autouse=True)
def _proxied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example.com:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)


def test_operators_proxy_is_on_the_way_to_strangers() -> None:
    hop = Hop(url=URL("http://registry.example.com/"), endpoint=Endpoint(plain_http=True))

    assert rules.route(hop).proxy == "http://proxy.example.com:3128"


def test_nothing_is_on_the_way_to_the_nodes_own_service() -> None:
    node = Endpoint(plain_http=True, node=True)

    assert rules.route(Hop(url=URL("http://169.254.169.254/"), endpoint=node)) == Route()


def test_redirect_leads_away_from_the_node_as_a_stranger() -> None:
    node = Endpoint(plain_http=True, node=True)
    hop = Hop(url=URL("http://169.254.169.254/"), endpoint=node)

    assert not rules.follow(hop, "http://registry.example.com/").endpoint.node


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("https://a.example/b c", "is too long, or has invalid characters"),
        ("https://a.example/\n", "is too long, or has invalid characters"),
        ("https://ä.example/", "is too long, or has invalid characters"),
        (f"https://a.example/{'x' * 20_000}", "is too long, or has invalid characters"),
        ("https://a.example:x/", "is not a URL"),
        ("https://[::1/", "is not a URL"),
        ("ftp://a.example/", "is not an HTTP URL"),
        ("https:///a", "is not an HTTP URL"),
        ("https://ada:hunter2@a.example/", "holds credentials: put them into a Secret"),
        ("https://ada@a.example/", "holds credentials: put them into a Secret"),
    ],
)
def test_what_is_no_plain_url_is_refused_without_its_secrets(url: str, complaint: str) -> None:
    with pytest.raises(HttpError, match=complaint) as caught:
        rules.parsed(url)

    assert "hunter2" not in str(caught.value)
