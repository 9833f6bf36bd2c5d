"""An answer has the form that the client likes best of those that there are."""

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st
from multidict import MultiDict

from apiserver import negotiation
from apiserver.call import Call, User
from apiserver.negotiation import JSON, TRANSFORMATIONS, YAML, Accepted
from apiserver.status import StatusError

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
PARTIAL = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def call(accept: str | None, *, agent: str = "kubectl", **query: str) -> Call:
    headers = {"User-Agent": agent} | ({} if accept is None else {"Accept": accept})
    request = make_mocked_request("GET", "/gauges", headers=headers)
    return Call(
        web=request, user=User(name="ada"), verb="list", path="/gauges", query=MultiDict(query)
    )


@pytest.mark.parametrize(
    ("accept", "media_type", "form", "version"),
    [
        (None, JSON, "", "v1"),
        ("*/*", JSON, "", "v1"),
        ("application/*", JSON, "", "v1"),
        ("*", JSON, "", "v1"),
        ("application/json", JSON, "", "v1"),
        ("application/json, */*", JSON, "", "v1"),
        ("application/yaml", YAML, "", "v1"),
        ("application/yaml;q=0.5,application/json;q=0.4", YAML, "", "v1"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", JSON, "", "v1"),
        (KUBECTL, JSON, "Table", "v1"),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", JSON, "Table", "v1beta1"),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io", YAML, "Table", "v1"),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", JSON, "", "v1"),
        ("application/json;as=Table;v=v1;g=apps,application/json", JSON, "", "v1"),
        ("application/json;as=Chart;v=v1;g=meta.k8s.io,application/json", JSON, "", "v1"),
        ("application/json;as=Table,application/yaml", YAML, "", "v1"),
        (
            f"{PROTOBUF}{PARTIAL},application/json{PARTIAL},application/json",
            JSON,
            "PartialObjectMetadataList",
            "v1",
        ),
        (f"{PROTOBUF},application/json", JSON, "", "v1"),
        (f"application/cbor,{PROTOBUF};q=0.9,*/*;q=0.1", JSON, "", "v1"),
        ("application/json;sv=v1", JSON, "", "v1"),
        ("application/json;stream=watch", JSON, "", "v1"),
    ],
)
def test_the_best_clause_that_can_be_made_wins(
    accept: str | None, media_type: str, form: str, version: str
) -> None:
    found = negotiation.negotiate(call(accept), forms=TRANSFORMATIONS)

    assert (found.media_type, found.form, found.version) == (media_type, form, version)


@pytest.mark.parametrize(
    "accept",
    [
        PROTOBUF,
        f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io",
        "application/cbor",
        "text/html",
        "application/json;as=Table;v=v1;g=apps",
        "application/json;stream=other",
        "application/json;sv=v2",
        "json",
        ",",
    ],
)
def test_a_client_that_takes_nothing_of_this_is_refused(accept: str) -> None:
    with pytest.raises(StatusError) as refused:
        negotiation.negotiate(call(accept), forms=TRANSFORMATIONS)

    assert (refused.value.code, refused.value.reason) == (406, "NotAcceptable")
    assert "application/json, application/yaml" in refused.value.message


def test_what_has_no_table_answers_with_the_next_clause() -> None:
    assert negotiation.negotiate(call(KUBECTL)) == Accepted()
    with pytest.raises(StatusError):
        negotiation.negotiate(call(TABLE))


def test_only_json_can_be_watched() -> None:
    assert negotiation.negotiate_stream(call(KUBECTL), forms=TRANSFORMATIONS).form == "Table"
    with pytest.raises(StatusError, match="application/json;stream=watch"):
        negotiation.negotiate_stream(call("application/yaml"), forms=TRANSFORMATIONS)


@pytest.mark.parametrize(
    ("agent", "query", "pretty"),
    [
        ("kubectl/v1.36", {}, False),
        ("curl/8.5", {}, True),
        ("Wget/1.21", {}, True),
        ("Mozilla/5.0 (X11)", {}, True),
        ("curl/8.5", {"pretty": "false"}, False),
        ("kubectl/v1.36", {"pretty": "true"}, True),
        ("kubectl/v1.36", {"pretty": "1"}, True),
        ("kubectl/v1.36", {"pretty": "yes"}, False),
    ],
)
def test_people_get_indented_answers(agent: str, query: dict[str, str], *, pretty: bool) -> None:
    assert negotiation.negotiate(call("*/*", agent=agent, **query)).pretty is pretty


@given(st.text(alphabet="application/json;,=q*.0123456789as vgTable\t", max_size=300))
def test_any_header_is_understood_or_refused(accept: str) -> None:
    for clause in negotiation.parse_accept(accept):
        assert 0 <= clause.weight <= 1
