"""Which way a request goes."""

import pytest
from yarl import URL

from toolkit.remote.http import rules
from toolkit.remote.http.rules import Endpoint, Hop, Route


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
