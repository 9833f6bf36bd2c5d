"""What the line of a request tells, whatever a client puts into it."""

import logging
from typing import Any

import pytest
from multidict import MultiDict

from apiserver import audit, requestinfo
from toolkit.objects import Json


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.INFO, logger="audit")
    return caplog


def line(caplog: pytest.LogCaptureFixture, uri: str, *sources: str) -> Json:
    info = requestinfo.parse("GET", uri.partition("?")[0], MultiDict())
    audit.record("id", info, None, uri=uri, code=200, seconds=0.1, sources=sources)
    found: Json = vars(caplog.records[-1])["audit"]
    return found


def test_the_query_tells_what_was_asked_for(lines: pytest.LogCaptureFixture) -> None:
    uri = "/apis/g/v1/namespaces/a/artifacts/x/files?path=deploy%2Fapp.yaml"

    assert line(lines, uri)["requestURI"] == uri
    assert len(line(lines, f"{uri}{'x' * 9000}")["requestURI"]) == 512


def test_sources_are_many_at_most_and_end_with_the_nearest(lines: pytest.LogCaptureFixture) -> None:
    told = [f"10.0.0.{number}" for number in range(100)]

    found = line(lines, "/apis", *told, "x" * 9000, "", "127.0.0.1")["sourceIPs"]

    assert found[0] == "10.0.0.87"
    assert found[-1] == "127.0.0.1"
    assert max(map(len, found)) == 512
